# Base graphics: coefficients with intervals, survival and hazards as steps with bands.

.colours <- c("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9") # Okabe and Ito (2008)

plot.dp_result <- function(x, level = 0.95, exponentiate = FALSE, xlab = NULL, ...) {
  table <- dp_estimates(x, conf.level = level)
  table <- table[!table$baseline & (table$term != "Intercept" | all(table$term[!table$baseline] == "Intercept")), ]
  .draw_coefficients(table, exponentiate = exponentiate, level = level, xlab = xlab, ...)
  invisible(x)
}

plot.dp_hazard <- function(x, newdata = NULL, which = c("survival", "hazard", "coefficients"), level = 0.95,
                           labels = NULL, xlab = NULL, ylab = NULL, ...) {
  which <- if (missing(which) && is.null(newdata)) "coefficients" else match.arg(which)
  if (which == "coefficients") return(plot.dp_result(x, level = level, xlab = xlab, ...))
  if (is.null(newdata)) .refuse("newdata must have the covariates of the people to draw, one row each", sys.call())
  table <- predict.dp_hazard(x, newdata, type = which, level = level)
  .draw_curves(table, value = which, labels = labels, xlab = xlab, ylab = ylab, ...)
  invisible(x)
}

plot.dp_plan <- function(x, ...) {
  table <- as.data.frame.dp_plan(x)
  wide <- tapply(table$std.error, list(table$epsilon, factor(table$term, unique(table$term))), identity)
  epsilon <- as.numeric(rownames(wide))
  margins <- graphics::par("mar")
  old <- graphics::par(mar = c(margins[1:3], 5 + 0.45 * max(nchar(colnames(wide)))))
  on.exit(graphics::par(old))
  graphics::matplot(epsilon, wide, type = "b", log = "xy", pch = 19, lty = 1, col = .colours,
                    xlab = "epsilon", ylab = "predicted standard error", ...)
  corner <- 10^graphics::par("usr")[c(2L, 4L)]
  graphics::legend(corner[[1L]], corner[[2L]], colnames(wide), col = .colours, lty = 1, pch = 19, bty = "n", cex = 0.8,
                   xpd = NA)
  invisible(x)
}

.draw_coefficients <- function(table, exponentiate, level, xlab, ...) {
  shown <- if (exponentiate) exp else identity
  terms <- unique(table$term)
  estimates <- unique(table$label)
  value <- shown(table$estimate)
  low <- shown(table$conf.low)
  high <- shown(table$conf.high)
  rank <- match(table$label, estimates) - (length(estimates) + 1) / 2
  height <- length(terms) - match(table$term, terms) + 1 - 0.6 * rank / length(estimates)
  colour <- .colours[match(table$label, estimates)]
  margins <- graphics::par("mar")
  old <- graphics::par(mar = c(margins[1L], max(4, 0.6 * max(nchar(terms))), margins[3L], margins[4L]))
  on.exit(graphics::par(old))
  if (is.null(xlab)) xlab <- paste0(if (exponentiate) "exp(coefficient)" else "coefficient", " (", 100 * level, "% interval)")
  limits <- range(value, low, high, finite = TRUE)
  graphics::plot(value, height, xlim = limits, ylim = c(0.4, length(terms) + 0.6), yaxt = "n", ylab = "", xlab = xlab,
                 log = if (exponentiate) "x" else "", pch = 19, col = colour, ...)
  graphics::abline(v = if (exponentiate) 1 else 0, col = "grey50")
  graphics::segments(low, height, high, height, col = colour, lwd = 1.5)
  graphics::axis(2, at = rev(seq_along(terms)), labels = terms, las = 1, tick = FALSE)
  if (length(estimates) > 1L) {
    graphics::legend("top", estimates, col = .colours[seq_along(estimates)], pch = 19, lty = 1, horiz = TRUE, bty = "n",
                     xpd = NA, inset = c(0, -0.12))
  }
}

.draw_curves <- function(table, value, labels, xlab, ylab, ...) {
  group <- if (is.null(table$cause)) table$row else interaction(table$row, table$cause, sep = ": ", lex.order = TRUE)
  curves <- split(table, factor(group, unique(group)))
  labels <- if (is.null(labels)) names(curves) else labels
  time <- if (value == "survival") "time" else "start"
  top <- if (value == "survival") 1 else max(table[[value]], pmin(table$conf.high, 4 * max(table[[value]])), na.rm = TRUE)
  end <- max(table[[if (value == "survival") "time" else "stop"]])
  if (is.null(ylab)) ylab <- if (value == "survival") "event-free probability" else "hazard per interval"
  graphics::plot(NA, xlim = c(0, end), ylim = c(0, top), las = 1, xlab = if (is.null(xlab)) "time" else xlab, ylab = ylab, ...)
  for (k in seq_along(curves)) {
    curve <- curves[[k]]
    colour <- .colours[(k - 1L) %% length(.colours) + 1L]
    .band(c(curve[[time]], end), curve$conf.low, pmin(curve$conf.high, 2 * top), colour)
    graphics::lines(c(curve[[time]], end), c(curve[[value]], curve[[value]][nrow(curve)]), type = "s", col = colour, lwd = 2)
  }
  if (length(curves) > 1L) {
    graphics::legend(if (value == "survival") "bottomleft" else "topright", labels, col = .colours, lwd = 2, bty = "n")
  }
}

# A band between two step functions that hold from each time to the next.
.band <- function(edges, low, high, colour) {
  known <- is.finite(low) & is.finite(high)
  n <- length(low)
  graphics::rect(edges[-(n + 1L)][known], low[known], edges[-1L][known], high[known],
                 col = grDevices::adjustcolor(colour, 0.15), border = NA)
}
