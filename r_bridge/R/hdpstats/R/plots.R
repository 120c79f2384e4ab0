# Base graphics: coefficients with intervals, survival as lines and hazards as steps, with bands.

.colours <- c("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9") # Okabe and Ito (2008)

plot.dp_result <- function(x, level = 0.95, exponentiate = FALSE, xlab = NULL, which = c("coefficients", "sites"),
                           term = NULL, labels = NULL, terms = NULL, scale = c("unit", "sd"), estimates = FALSE, over = NULL,
                           ...) {
  if (match.arg(which) == "sites") {
    table <- .broom_names(.py("forest", list(result = x, conf_level = level)))
    .draw_forest(table, term = term, level = level, exponentiate = exponentiate, xlab = xlab, call = sys.call(), ...)
    return(invisible(x))
  }
  found <- .coefficient_rows(x, level, exponentiate, labels, terms, match.arg(scale), over, sys.call())
  .draw_coefficients(found$table, exponentiate = exponentiate, level = level, xlab = if (is.null(xlab)) found$label else xlab,
                     numbers = estimates, ...)
  invisible(x)
}

# The coefficients that a figure shows, and the title of its axis.
.coefficient_rows <- function(x, level, exponentiate, labels, terms, scale, over, call) {
  rows <- if (scale == "sd") .public_rows(x, over, call)
  found <- .py("coefficient_rows", list(
    result = x, conf_level = level, exponentiate = exponentiate, labels = labels, terms = terms, scale = scale, newdata = rows
  ), call)
  table <- .broom_names(found$table)
  table$term <- table$shown
  list(table = table, label = paste0(found$label, " (", 100 * level, "% interval)"))
}

plot.dp_hazard <- function(x, newdata = NULL, which = c("survival", "hazard", "coefficients", "sites"),
                           level = 0.95, labels = NULL, xlab = NULL, ylab = NULL, units = NULL, ...) {
  which <- if (missing(which) && is.null(newdata)) "coefficients" else match.arg(which)
  if (which %in% c("coefficients", "sites")) {
    return(plot.dp_result(x, level = level, xlab = xlab, which = which, labels = labels, ...))
  }
  if (is.null(newdata)) .refuse("newdata must have the covariates of the people to draw, one row each", sys.call())
  unit <- .py("unit_of_time", list(result = x))
  table <- predict.dp_hazard(x, newdata, type = which, level = level)
  axis <- .time_axis(max(table[[if (which == "survival") "time" else "stop"]]), unit, units = units, xlab = xlab, call = sys.call())
  if (which == "survival") table <- predict.dp_hazard(x, newdata, times = .fine_times(table$time), level = level)
  .draw_curves(table, value = which, labels = labels, ylab = ylab, axis = axis, ...)
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

.draw_coefficients <- function(table, exponentiate, level, xlab, numbers = FALSE, ...) {
  shown <- if (exponentiate) exp else identity
  terms <- unique(table$term)
  estimates <- unique(table$label)
  value <- shown(table$estimate)
  low <- shown(table$conf.low)
  high <- shown(table$conf.high)
  rank <- match(table$label, estimates) - (length(estimates) + 1) / 2
  height <- length(terms) - match(table$term, terms) + 1 - 0.6 * rank / length(estimates)
  colour <- .colours[match(table$label, estimates)]
  texts <- if (numbers) .limits_text(value, low, high) else ""
  margins <- graphics::par("mar")
  old <- graphics::par(mar = c(margins[1L], max(4, 0.6 * max(nchar(terms))), margins[3L], max(margins[4L], 0.5 * max(nchar(texts)))))
  on.exit(graphics::par(old))
  if (is.null(xlab)) xlab <- paste0(if (exponentiate) "exp(coefficient)" else "coefficient", " (", 100 * level, "% interval)")
  limits <- range(value, low, high, finite = TRUE)
  graphics::plot(value, height, xlim = limits, ylim = c(0.4, length(terms) + 0.6), yaxt = "n", ylab = "", xlab = xlab,
                 log = if (exponentiate) "x" else "", pch = 19, col = colour, ...)
  graphics::abline(v = if (exponentiate) 1 else 0, col = "grey50")
  graphics::segments(low, height, high, height, col = colour, lwd = 1.5)
  graphics::axis(2, at = rev(seq_along(terms)), labels = terms, las = 1, tick = FALSE)
  if (numbers) graphics::mtext(texts, 4, line = 0.5, at = height, las = 1, cex = 0.8 * graphics::par("cex"), col = colour)
  if (length(estimates) > 1L) {
    graphics::legend("top", estimates, col = .colours[seq_along(estimates)], pch = 19, lty = 1, horiz = TRUE, bty = "n",
                     xpd = NA, inset = c(0, -0.12))
  }
}

# Estimates with their limits as text; in scientific form where three decimals would hide them.
.limits_text <- function(value, low, high) {
  text <- function(x) ifelse(x == 0 | (abs(x) >= 1e-4 & abs(x) < 1e4), sprintf("%.3f", x), sprintf("%.3g", x))
  limits <- ifelse(is.na(low), "", paste0(" [", text(low), ", ", text(high), "]"))
  ifelse(is.na(value), "not estimable", paste0(text(value), limits))
}

# A row per source, the first on top: a square for a source, its area the precision, a diamond for several together.
.draw_forest <- function(table, term, level, exponentiate, xlab, call, ...) {
  terms <- unique(table$term)
  if (is.null(term)) term <- c(table$term[table$covariate], terms)[[1L]]
  if (!is.character(term) || length(term) != 1L || !term %in% terms) {
    .refuse(paste0("term must be one of ", paste0("'", terms, "'", collapse = ", ")), call)
  }
  table <- table[table$term == term, ]
  shown <- if (exponentiate) exp else identity
  value <- shown(table$estimate)
  low <- shown(table$conf.low)
  high <- shown(table$conf.high)
  height <- rev(seq_along(value))
  labels <- paste0(strrep("   ", table$depth), table$label)
  limits_text <- .limits_text(value, low, high)
  margins <- graphics::par("mar")
  old <- graphics::par(mar = c(margins[1L], max(4, 0.6 * max(nchar(labels))), margins[3L], 0.5 * max(nchar(limits_text))))
  on.exit(graphics::par(old))
  if (is.null(xlab)) xlab <- paste0(if (exponentiate) paste0("exp(", term, ")") else term, " (", 100 * level, "% interval)")
  limits <- range(value, low, high, finite = TRUE)
  graphics::plot(NA, xlim = limits, ylim = c(0.4, length(value) + 0.6), yaxt = "n", ylab = "", xlab = xlab,
                 log = if (exponentiate) "x" else "", bty = "n", ...)
  graphics::abline(v = value[[1L]], col = "grey50", lty = 3)
  if (exponentiate) graphics::abline(v = 1, col = "grey50")
  for (k in which(table$group)) {
    graphics::polygon(c(low[[k]], value[[k]], high[[k]], value[[k]]), height[[k]] + c(0, -0.3, 0, 0.3), border = NA,
                      col = .colours[[if (table$depth[[k]]) 2L else 3L]])
  }
  alone <- !table$group
  graphics::segments(low[alone], height[alone], high[alone], height[alone], col = .colours[[1L]], lwd = 1.2)
  precision <- min(table$std.error[alone], na.rm = TRUE) / table$std.error
  graphics::points(value[alone], height[alone], pch = 15, cex = pmax(0.5, 1.6 * precision[alone]), col = .colours[[1L]])
  graphics::axis(2, at = height, labels = labels, las = 1, tick = FALSE, hadj = 0, line = max(2, 0.55 * max(nchar(labels))) - 1)
  graphics::axis(4, at = height, labels = limits_text, las = 1, tick = FALSE, cex.axis = 0.8)
}

# Times close to each other, and the ends of intervals among them.
.fine_times <- function(ends) sort(unique(c(ends, seq(0, max(ends), length.out = 401L))))

.draw_curves <- function(table, value, labels, ylab, axis, ...) {
  group <- if (is.null(table$cause)) table$row else interaction(table$row, table$cause, sep = ": ", lex.order = TRUE)
  curves <- split(table, factor(group, unique(group)))
  labels <- if (is.null(labels)) names(curves) else labels
  top <- if (value == "survival") 1 else max(table[[value]], pmin(table$conf.high, 4 * max(table[[value]])), na.rm = TRUE)
  end <- axis$end
  if (is.null(ylab)) ylab <- if (value == "survival") "event-free probability" else "hazard per interval"
  graphics::plot(NA, xlim = c(0, end), ylim = c(0, top), las = 1, xaxt = "n", xlab = axis$title, ylab = ylab, ...)
  graphics::axis(1, at = axis$ticks, labels = axis$labels)
  for (k in seq_along(curves)) {
    curve <- curves[[k]]
    colour <- .colours[(k - 1L) %% length(.colours) + 1L]
    if (value == "survival") {
      .joined_band(curve, colour)
      graphics::lines(curve$time, curve$survival, col = colour, lwd = 2)
    } else {
      .band(c(curve$start, end), curve$conf.low, pmin(curve$conf.high, 2 * top), colour)
      graphics::lines(c(curve$start, end), c(curve$hazard, curve$hazard[nrow(curve)]), type = "s", col = colour, lwd = 2)
    }
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
