# Base graphics: coefficients with intervals, survival as lines and hazards as steps, with bands.

# Okabe and Ito (2008), in the order in which lines take them, as in Python
.colours <- c("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

# The colours of series, in graphics of base R or of ggplot2: on dark grounds the light ones come first, and white is there for black.
.palette <- function(dark = .is_dark()) if (dark) c(.colours[c(6L, 5L, 3L, 4L, 2L, 1L)], "#FFFFFF") else .colours

# Set graphical parameters, all that is written in the colour of the device, and return what was set.
.par <- function(...) {
  ink <- graphics::par("fg")
  graphics::par(..., col.axis = ink, col.lab = ink, col.main = ink, col = ink)
}

# Numbers of a logarithmic axis as plain numbers: 0.01, not 1e-02.
.plain <- function(x) vapply(x, function(each) if (is.na(each)) NA_character_ else format(each, scientific = FALSE, digits = 12L, trim = TRUE), "")

# Round places on a logarithmic axis between two limits: even ones where these are close, powers of ten where they are far.
.ratio_ticks <- function(limits) {
  if (!all(is.finite(limits)) || limits[[1L]] <= 0) return(1)
  reach <- limits[[2L]] / limits[[1L]]
  powers <- 10^seq(floor(log10(limits[[1L]])), ceiling(log10(limits[[2L]])))
  found <- if (reach < 8) pretty(limits, 6) else if (reach > 1000) powers else sort(as.vector(outer(c(1, 2, 5), powers)))
  found[found >= limits[[1L]] * (1 - 1e-9) & found <= limits[[2L]] * (1 + 1e-9)]
}

.ratio_axis <- function(side = 1) {
  at <- .ratio_ticks(10^graphics::par("usr")[if (side %% 2) 1:2 else 3:4])
  graphics::axis(side, at = at, labels = .plain(at), gap.axis = 0.25)
}

# A text in lines that leave a figure room for what is drawn.
.wrapped <- function(texts, letters = 37L) {
  vapply(texts, function(text) paste(strwrap(text, letters), collapse = "\n"), "", USE.NAMES = FALSE)
}

# How many letters a line of labels beside a figure may have: two fifths of its width.
.beside <- function() max(12L, min(37L, as.integer(0.4 * graphics::par("fin")[[1L]] / (0.55 * graphics::par("csi")))))

.widest <- function(texts) max(nchar(unlist(strsplit(c(texts, ""), "\n", fixed = TRUE))), 0L)

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
  label <- .py("label_of_time", list(result = x))
  axis <- .time_axis(max(table[[if (which == "survival") "time" else "stop"]]), unit, units = units, xlab = xlab, call = sys.call(),
                     label = label)
  if (which == "survival") table <- predict.dp_hazard(x, newdata, times = .fine_times(table$time), level = level)
  .draw_curves(table, value = which, labels = labels, ylab = ylab, axis = axis, ...)
  invisible(x)
}

# A panel for each coefficient, as in Python: what a fit would report, the private rows alone, the public rows alone.
plot.dp_plan <- function(x, ...) {
  table <- as.data.frame.dp_plan(x)
  named <- unique(table$term)
  terms <- named[!grepl("^(.*:)?[(]?Intercept[)]?$", named)]
  if (!length(terms)) terms <- named
  across <- min(3L, length(terms))
  down <- ceiling(length(terms) / across)
  old <- .par(mfrow = c(down, across), mar = c(2, 2.5, 2.2, 0.5), oma = c(2, 2, 2.2, 0), mgp = c(1.5, 0.5, 0), tcl = -0.3)
  on.exit(graphics::par(old))
  colours <- c(public = graphics::par("fg"), private = .palette()[[1L]], reported = .colours[[2L]])
  for (term in terms) {
    own <- table[table$term == term, ]
    own <- own[order(own$epsilon), ]
    public <- own$public.only[[1L]]
    top <- if (is.finite(public)) 1.7 * public else 1.1 * .highest(own[c("private.only", "std.error")])
    graphics::plot(NA, xlim = range(own$epsilon), ylim = c(0, top), log = "x", xaxt = "n", xlab = "", ylab = "", las = 1,
                   main = .wrapped(if (term %in% names(x$labels)) x$labels[[term]] else term, 28L), cex.main = 1, font.main = 1, ...)
    .ratio_axis()
    if (is.finite(public)) graphics::abline(h = public, lty = 3, col = colours[["public"]])
    type <- if (nrow(own) == 1L) "b" else "l"
    graphics::lines(own$epsilon, own$private.only, type = type, lty = 2, col = colours[["private"]])
    graphics::lines(own$epsilon, own$std.error, type = type, lwd = 2, col = colours[["reported"]])
  }
  ink <- graphics::par("fg")
  graphics::mtext("epsilon (log scale)", 1, outer = TRUE, line = 0.7, col = ink)
  graphics::mtext("predicted standard error", 2, outer = TRUE, line = 0.5, col = ink)
  graphics::par(mfrow = c(1, 1), mar = c(0, 0, 0, 0), oma = c(0, 0, 0, 0), new = TRUE)
  graphics::plot.new()
  known <- is.finite(table$public.only[[1L]])
  graphics::legend("top", c(if (known) "public only", "private only", "reported"), col = colours[c(known, TRUE, TRUE)],
                   lty = c(if (known) 3, 2, 1), lwd = c(if (known) 1, 1, 2), horiz = TRUE, bty = "n", text.col = ink)
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
  step <- (if (numbers) 0.84 else 0.6) / length(estimates)
  height <- length(terms) - match(table$term, terms) + 1 - step * rank
  colours <- rep_len(.palette(), length(estimates))
  colour <- colours[match(table$label, estimates)]
  texts <- if (numbers) .limits_text(value, low, high) else ""
  labels <- .wrapped(terms, .beside())
  small <- .fitting(length(terms) * max(lengths(strsplit(labels, "\n", fixed = TRUE)), 1L))
  margins <- graphics::par("mar")
  letter <- 0.55 * small
  beside <- 0.8 * min(small, .fitting(length(terms) / step)) # of the numbers, a line for each estimate
  several <- length(estimates) > 1L
  wide <- .legend_width(estimates, 0.5 * graphics::par("csi") * nchar(estimates)) > graphics::par("fin")[[1L]]
  above <- if (several) max(margins[3L], if (wide) length(estimates) + 0.5 else 2) else margins[3L]
  old <- .par(mar = c(margins[1L], max(4, letter * .widest(labels) + 1), above, max(margins[4L], 0.69 * beside * max(nchar(texts)) + 1)))
  on.exit(graphics::par(old))
  if (is.null(xlab)) xlab <- paste0(if (exponentiate) "exp(coefficient)" else "coefficient", " (", 100 * level, "% interval)")
  graphics::plot(NA, xlim = .limits_of(c(value, low, high), exponentiate), ylim = c(0.4, length(terms) + 0.6), xaxt = "n", yaxt = "n",
                 ylab = "", xlab = xlab, log = if (exponentiate) "x" else "", ...)
  if (exponentiate) .ratio_axis() else graphics::axis(1)
  graphics::abline(v = if (exponentiate) 1 else 0, col = "grey50")
  graphics::segments(low, height, high, height, col = colour, lwd = 1.5)
  graphics::points(value, height, pch = 19, col = colour)
  graphics::axis(2, at = rev(seq_along(terms)), labels = labels, las = 1, tick = FALSE, cex.axis = small)
  if (numbers) graphics::mtext(texts, 4, line = 0.5, at = height, las = 1, cex = beside * graphics::par("cex"), col = colour)
  if (several) {
    width <- .legend_width(estimates, graphics::strwidth(estimates, units = "inches"))
    right <- graphics::grconvertX(1, "nfc", "inches") - (if (wide) max(width / length(estimates), 0) else width)
    left <- max(graphics::grconvertX(0, "nfc", "inches"), min(graphics::grconvertX(0, "npc", "inches"), right))
    graphics::legend(graphics::grconvertX(left, "inches"), graphics::grconvertY(1, "npc"), estimates, col = colours, pch = 19, lty = 1,
                     horiz = !wide, bty = "n", xpd = NA, yjust = 0, xjust = 0, cex = 0.85, text.col = graphics::par("fg"))
  }
}

# The width of a legend in one row, in inches: each entry has that of the widest text, and of its line.
.legend_width <- function(texts, widths) 0.85 * length(texts) * (max(widths) + 4.5 * graphics::par("cin")[[1L]])

# The size of letters at which so many lines fit between the axes.
.fitting <- function(lines) {
  height <- graphics::par("fin")[[2L]] - sum(graphics::par("mai")[c(1L, 3L)])
  max(0.4, min(1, height / (1.1 * lines * graphics::par("csi"))))
}

# The limits of an axis: those of the numbers that are there, and of the place of no effect.
.limits_of <- function(values, exponentiate) {
  values <- values[is.finite(values) & (!exponentiate | values > 0)]
  found <- range(c(values, if (exponentiate) 1 else 0))
  if (found[[1L]] == found[[2L]]) if (exponentiate) c(0.5, 2) else c(-1, 1) else found
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
  colours <- .palette()
  ink <- graphics::par("fg")
  if (!is.null(table$shown)) term <- table$shown[[1L]]
  old <- .par(mar = c(margins[1L], max(4, 0.6 * max(nchar(labels))), margins[3L], 0.5 * max(nchar(limits_text))))
  on.exit(graphics::par(old))
  if (is.null(xlab)) xlab <- paste0(if (exponentiate) paste0("exp(", term, ")") else term, " (", 100 * level, "% interval)")
  graphics::plot(NA, xlim = .limits_of(c(value, low, high), exponentiate), ylim = c(0.4, length(value) + 0.6), xaxt = "n", yaxt = "n",
                 ylab = "", xlab = xlab, log = if (exponentiate) "x" else "", bty = "n", ...)
  if (exponentiate) .ratio_axis() else graphics::axis(1)
  graphics::abline(v = value[[1L]], col = "grey50", lty = 3)
  if (exponentiate) graphics::abline(v = 1, col = "grey50")
  for (k in which(table$group)) {
    graphics::polygon(c(low[[k]], value[[k]], high[[k]], value[[k]]), height[[k]] + c(0, -0.3, 0, 0.3), border = NA,
                      col = colours[[if (table$depth[[k]]) 1L else 2L]])
  }
  alone <- !table$group
  graphics::segments(low[alone], height[alone], high[alone], height[alone], col = ink, lwd = 1.2)
  errors <- table$std.error[alone & is.finite(table$std.error)]
  precision <- if (length(errors)) min(errors) / table$std.error else rep(0, nrow(table))
  precision[!is.finite(precision)] <- 0
  graphics::points(value[alone], height[alone], pch = 15, cex = pmax(0.5, 1.6 * precision[alone]), col = ink)
  graphics::axis(2, at = height, labels = labels, las = 1, tick = FALSE, hadj = 0, line = max(2, 0.55 * max(nchar(labels))) - 1)
  graphics::axis(4, at = height, labels = limits_text, las = 1, tick = FALSE, cex.axis = 0.8)
}

# Times close to each other, and the ends of intervals among them.
.fine_times <- function(ends) sort(unique(c(ends, seq(0, max(ends), length.out = 401L))))

.draw_curves <- function(table, value, labels, ylab, axis, ...) {
  group <- if (is.null(table$cause)) table$row else interaction(table$row, table$cause, sep = ": ", lex.order = TRUE)
  curves <- split(table, factor(group, unique(group)))
  labels <- if (is.null(labels)) names(curves) else labels
  top <- if (value == "survival") 1 else .highest(list(table[[value]], pmin(table$conf.high, 4 * .highest(table[[value]]))))
  if (is.null(ylab)) ylab <- if (value == "survival") "event-free probability" else "hazard per interval"
  apart <- length(curves) > length(.colours)
  shown <- if (apart) as.list(seq_along(curves)) else list(seq_along(curves))
  named <- !apart && length(curves) > 1L
  margins <- graphics::par("mar")
  wide <- value == "hazard" # numbers of several decimals, beside which the title stands
  old <- .par(mfrow = if (apart) .panels(length(curves)) else c(1, 1), mgp = c(2.2, 0.6, 0),
              mar = if (apart) c(3.2, 3.4 + wide, 1.6, 0.5) else c(margins[[1L]], margins[[2L]] + wide, if (named) 0.9 * length(curves) + 0.8 else margins[[3L]], margins[[4L]]))
  on.exit(graphics::par(old))
  ink <- graphics::par("fg")
  for (part in shown) {
    graphics::plot(NA, xlim = c(0, axis$end), ylim = c(0, top), las = 1, xaxt = "n", xlab = axis$title, ylab = "", bty = "l", ...)
    graphics::title(ylab = ylab, line = if (wide) 3.4 else 2.2)
    graphics::axis(1, at = axis$ticks, labels = axis$labels)
    for (k in part) .draw_curve(curves[[k]], value, .palette()[[if (apart) 1L else k]], axis$end, top)
    if (apart) graphics::mtext(labels[[part]], 3, line = 0.2, adj = 0, cex = 0.7, col = ink)
  }
  if (named) {
    graphics::legend(graphics::grconvertX(0, "npc"), graphics::grconvertY(1, "npc"), labels, col = .palette()[seq_along(curves)], lwd = 2,
                     bty = "n", xpd = NA, yjust = 0, xjust = 0, cex = 0.85, y.intersp = 0.9, text.col = ink)
  }
}

.draw_curve <- function(curve, value, colour, end, top) {
  if (value == "survival") {
    .joined_band(curve, colour)
    graphics::lines(curve$time, curve$survival, col = colour, lwd = 2)
  } else {
    .band(c(curve$start, end), curve$conf.low, pmin(curve$conf.high, 2 * top), colour)
    graphics::lines(c(curve$start, end), c(curve$hazard, curve$hazard[nrow(curve)]), type = "s", col = colour, lwd = 2)
  }
}

# A band between two step functions that hold from each time to the next.
.band <- function(edges, low, high, colour) {
  known <- is.finite(low) & is.finite(high)
  n <- length(low)
  graphics::rect(edges[-(n + 1L)][known], low[known], edges[-1L][known], high[known],
                 col = grDevices::adjustcolor(colour, 0.15), border = NA)
}
