# Predictions for public rows.

predict.dp_logit <- function(object, newdata, type = c("link", "response"),
                             interval = c("none", "confidence"), level = 0.95, ...) {
  .no_more("predict", ...)
  .check_newdata(newdata, sys.call())
  found <- .predicted(object, newdata, interval = match.arg(interval), level = level)
  if (match.arg(type) == "response") return(found)
  if (is.data.frame(found)) found[] <- lapply(found, stats::qlogis) else found <- stats::qlogis(found)
  found
}

# Predicted means with limits; of a multinomial model with limits a row for each row and level.
.predicted <- function(object, newdata, interval, level, call = sys.call(sys.parent())) {
  ci <- interval == "confidence"
  found <- .py("predict", list(result = object, newdata = newdata, ci = ci, alpha = 1 - level), call)
  if (!ci) return(found)
  names(found)[ncol(found) - 2:0] <- c("fit", "lwr", "upr")
  found
}

predict.dp_hazard <- function(object, newdata, type = c("survival", "hazard", "incidence", "median"), times = NULL,
                              conf.int = TRUE, level = 0.95, ...) {
  .no_more("predict", ...)
  .check_newdata(newdata, sys.call())
  type <- match.arg(type)
  timed <- type %in% c("survival", "incidence")
  if (!is.null(times) && !timed) .refuse("times are for type = \"survival\" and \"incidence\"", sys.call())
  .broom_names(.py(paste0("predict_", type), list(
    result = object, newdata = newdata, times = times, ci = if (type != "median") conf.int, alpha = 1 - level
  )))
}

.check_newdata <- function(newdata, call) {
  if (missing(newdata) || is.null(newdata)) {
    .refuse("newdata must be given: a result holds no rows for which it could predict", call)
  }
}

dp_predict_survival <- function(object, newdata, times = NULL, conf.int = TRUE, level = 0.95) {
  .check_newdata(newdata, sys.call())
  .broom_names(.py("predict_survival", list(
    result = object, newdata = newdata, times = times, ci = conf.int, alpha = 1 - level
  )))
}

dp_baseline_hazard <- function(object, newdata = NULL, level = 0.95) {
  .broom_names(.py("baseline_hazard", list(result = object, at = newdata, alpha = 1 - level)))
}
