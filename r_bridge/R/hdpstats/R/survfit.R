# Survival curves of groups: one function spends. Curves carry their JSON text: they outlive the session and the Python
# that made them.

dp_survfit <- function(formula, data, epsilon = NULL, ..., times = NULL, weights = NULL, delta = 0, description = NULL,
                       replicate = 1) {
  .check_data(data, sys.call())
  if (is.null(description)) .check_epsilon(epsilon, sys.call())
  .py("survfit", list(
    formula = .formula_text(formula, sys.call()), data = data, epsilon = epsilon, times = times, weights = weights,
    delta = delta, description = description, replicate = replicate, ...
  ))
}

dp_survfit_plan <- function(formula, data, epsilon = c(0.1, 0.3, 1), ..., times = NULL, weights = NULL, n = NULL) {
  .check_data(data, sys.call())
  .py("survfit_plan", list(
    formula = .formula_text(formula, sys.call()), data = data, epsilon = epsilon, times = times, weights = weights, n = n, ...
  ))
}

dp_survfit_public <- function(formula, data, times = NULL, weights = NULL) {
  .check_data(data, sys.call())
  .py("survfit_public", list(formula = .formula_text(formula, sys.call()), data = data, times = times, weights = weights))
}

dp_logrank_test <- function(x, method = c("logrank", "peto"), strata = NULL, source = NULL, level = 0.95) {
  found <- .py("curves_test", list(
    curves = x, method = match.arg(method), strata = strata, source = source, alpha = 1 - level
  ))
  structure(list(
    statistic = c("X-squared" = found$statistic), parameter = c(df = found$df), p.value = found$p_value,
    method = if (found$method == "peto") "Peto-Peto test" else "Log-rank test", data.name = x$formula,
    events = .broom_names(found$events), hazard.ratios = .broom_names(found$hazard_ratios), text = found$text
  ), class = c("dp_logrank_test", "htest"))
}

dp_restricted_mean <- function(x, upto = NULL, differences = FALSE, level = 0.95, source = NULL) {
  .broom_names(.py("curves_restricted_mean", list(
    curves = x, upto = upto, differences = differences, alpha = 1 - level, source = source
  )))
}

dp_write_curves <- function(x, path) {
  .py("to_json", list(result = x, path = .path(path)))
  invisible(x)
}

dp_read_curves <- function(path) .py("curves_from_json", list(path_or_text = .path(path)))

tidy.dp_curves <- function(x, conf.level = 0.95, source = NULL, ...) {
  .no_more("tidy", ...)
  .broom_names(.py("curves_tidy", list(curves = x, conf_level = conf.level, source = source)))
}

as.data.frame.dp_curves <- function(x, row.names = NULL, optional = FALSE, ...) .broom_names(x$table)

as.data.frame.dp_curves_plan <- function(x, row.names = NULL, optional = FALSE, ...) .broom_names(x$frame)

quantile.dp_curves <- function(x, probs = c(0.25, 0.5, 0.75), conf.level = 0.95, ...) {
  .no_more("quantile", ...)
  .broom_names(.py("curves_quantile", list(curves = x, probs = probs, alpha = 1 - conf.level)))
}

median.dp_curves <- function(x, na.rm = FALSE, ...) .broom_names(.py("curves_median", list(curves = x)))

print.dp_curves <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  guarantee <- if (x$source == "public") "public rows" else x$guarantee
  cat("survival curves of ", x$formula, ": ", guarantee, "\n\n", sep = "")
  found <- .broom_names(x$medians)
  own <- if (is.null(x$table$cause)) x$table else x$table[x$table$cause == "(event-free)", ]
  group <- if (all(is.na(own$group))) rep("all", nrow(own)) else own$group
  events <- tapply(own$events, factor(group, x$groups), sum)
  shown <- data.frame(n = round(found$people), events = as.vector(round(events)), median = found$estimate,
                      lower = found$conf.low, upper = found$conf.high, row.names = x$groups)
  names(shown)[4:5] <- c("0.95LCL", "0.95UCL")
  print(shown, digits = digits)
  invisible(x)
}

summary.dp_curves <- function(object, level = 0.95, times = NULL, ...) {
  .no_more("summary", ...)
  text <- .py("summary_text", list(result = object, alpha = 1 - level))
  table <- if (is.null(times)) as.data.frame.dp_curves(object)
  else .broom_names(.py("curves_at", list(curves = object, times = times, conf_level = level)))
  structure(list(text = text, table = table), class = "summary.dp_curves")
}

plot.dp_curves <- function(x, conf.int = TRUE, at.risk = TRUE, median = TRUE, p.value = TRUE, labels = NULL, cause = NULL,
                           col = .colours, xlab = NULL, ylab = NULL, ...) {
  table <- .curve_rows(x, cause)
  axis <- .time_axis(max(x$times), x$unit_of_time)
  labels <- if (is.null(labels)) x$groups else labels
  rows <- if (at.risk) length(x$groups) + 1L else 0L
  old <- graphics::par(mar = c(5 + rows, max(4.1, 0.6 * max(nchar(labels)) + 1), 1, 1) + 0.1)
  on.exit(graphics::par(old))
  if (is.null(ylab)) ylab <- if (is.null(cause)) "event-free probability" else paste("incidence of", cause)
  top <- if (is.null(cause)) 1 else max(table$conf.high, table$estimate, na.rm = TRUE)
  graphics::plot(NA, xlim = c(0, 1.02 * axis$end), ylim = c(0, top), las = 1, xaxt = "n", bty = "l",
                 xlab = if (is.null(xlab)) axis$title else xlab, ylab = ylab, ...)
  graphics::axis(1, at = axis$ticks, labels = axis$labels)
  start <- if (is.null(cause)) 1 else 0
  for (k in seq_along(x$groups)) {
    own <- table[table$group == x$groups[[k]], ]
    if (!nrow(own) || all(is.na(own$estimate))) next
    edges <- c(0, own$time, 1.02 * axis$end)
    if (conf.int) .band(edges, c(start, own$conf.low), c(start, own$conf.high), col[[k]])
    graphics::lines(edges, c(start, own$estimate, own$estimate[nrow(own)]), type = "s", col = col[[k]], lwd = 2)
  }
  if (median && is.null(cause)) {
    middle <- x$medians$estimate
    for (k in which(is.finite(middle))) {
      graphics::segments(c(0, middle[[k]]), c(0.5, 0), middle[[k]], 0.5, lty = 3, col = col[[k]])
    }
  }
  if (p.value && is.null(cause) && length(x$groups) > 1L && sum(is.finite(x$medians$people)) > 1L) {
    p <- dp_logrank_test(x)$p.value
    graphics::text(0, 0.03, paste("log-rank", if (p < 0.001) "p < 0.001" else sprintf("p = %.3f", p)), adj = 0)
  }
  if (length(x$groups) > 1L) {
    graphics::legend(if (is.null(cause)) "topright" else "topleft", labels, col = col, lwd = 2, bty = "n", cex = 0.85)
  }
  if (at.risk) .draw_at_risk(x, axis, labels, col)
  invisible(x)
}

autoplot.dp_curves <- function(object, conf.int = TRUE, cause = NULL, ...) {
  table <- .curve_rows(object, cause)
  axis <- .time_axis(max(object$times), object$unit_of_time)
  start <- if (is.null(cause)) 1 else 0
  first <- table[!duplicated(table$group), ]
  first[c("time", "estimate", "conf.low", "conf.high")] <- list(0, start, start, start)
  table <- rbind(first, table)
  table <- table[order(match(table$group, object$groups), table$time), ]
  table$group <- factor(table$group, object$groups)
  held <- do.call(rbind, lapply(split(table, table$group), function(own) {
    if (!nrow(own)) return(NULL)
    transform(own, until = c(own$time[-1L], 1.02 * axis$end))
  }))
  aes <- function(...) do.call(ggplot2::aes, lapply(c(...), as.name))
  drawn <- ggplot2::ggplot(table, aes(x = "time", y = "estimate", colour = "group"))
  if (conf.int) {
    drawn <- drawn + ggplot2::geom_rect(aes(xmin = "time", xmax = "until", ymin = "conf.low", ymax = "conf.high", fill = "group"),
                                        data = held, alpha = 0.15, colour = NA, inherit.aes = FALSE)
  }
  drawn + ggplot2::geom_step() + ggplot2::scale_x_continuous(breaks = axis$ticks, labels = axis$labels) +
    ggplot2::coord_cartesian(ylim = c(0, if (is.null(cause)) 1 else NA)) +
    ggplot2::labs(x = axis$title, y = if (is.null(cause)) "event-free probability" else paste("incidence of", cause), colour = NULL,
                  fill = NULL)
}

# The rows of one curve per group, with text for the groups.
.curve_rows <- function(x, cause) {
  table <- as.data.frame.dp_curves(x)
  if (!is.null(table$cause)) table <- table[table$cause == (if (is.null(cause)) "(event-free)" else match.arg(cause, x$causes)), ]
  table$group <- ifelse(is.na(table$group), "all", table$group)
  table
}

# Days are shown as years, months or weeks where there are two of these.
.time_axis <- function(end, unit) {
  lengths <- c(days = 1, weeks = 7, months = 365.25 / 12, years = 365.25)
  own <- if (is.null(unit) || is.na(unit)) NA else paste0(sub("s$", "", tolower(trimws(unit))), "s")
  shown <- if (is.na(own)) NULL else unit
  length <- 1
  if (own %in% names(lengths)) {
    fitting <- names(lengths)[lengths >= lengths[[own]] & end * lengths[[own]] >= 2 * lengths]
    shown <- c(own, fitting)[[length(fitting) + 1L]]
    length <- lengths[[shown]] / lengths[[own]]
  }
  ticks <- pretty(c(0, end / length), 7)
  ticks <- ticks[ticks <= end / length * (1 + 1e-9)]
  list(end = end, ticks = ticks * length, labels = ticks, title = if (is.null(shown)) "time" else paste0("time (", shown, ")"))
}

.draw_at_risk <- function(x, axis, labels, col) {
  found <- .py("curves_at", list(curves = x, times = axis$ticks))
  if (!is.null(found$cause)) found <- found[found$cause == "(event-free)", ]
  group <- ifelse(is.na(found$group), "all", found$group)
  graphics::mtext(if (x$source == "private") "number at risk (noisy)" else "number at risk", 1, line = 4, at = 0, adj = 0, cex = 0.8)
  for (k in seq_along(x$groups)) {
    numbers <- found$at_risk[group == x$groups[[k]]]
    shown <- ifelse(is.na(numbers), "N/A", format(round(pmax(numbers, 0)), trim = TRUE))
    graphics::mtext(labels[[k]], 1, line = 4 + k, at = -0.075 * axis$end, adj = 1, cex = 0.8, col = col[[k]])
    graphics::mtext(shown, 1, line = 4 + k, at = axis$ticks, cex = 0.8)
  }
}
