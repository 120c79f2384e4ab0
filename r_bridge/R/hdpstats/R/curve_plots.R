# Figures of survival curves, in base graphics and for ggplot2: lines and bands by group, medians, the test, and the
# numbers at risk below. Lines are those of summary(times = ): hazards are constant within intervals. Arguments may have
# survminer's names.

plot.dp_curves <- function(x, conf.int = TRUE, at.risk = TRUE, median = TRUE, p.value = TRUE, labels = NULL, cause = NULL,
                           col = NULL, xlab = NULL, ylab = NULL, units = NULL, ...) {
  asked <- .as_in_survminer(list(...), list(at.risk = at.risk, median = median, p.value = p.value, labels = labels, col = col))
  table <- .curve_rows(x, cause)
  lines <- .drawn_rows(x, cause)
  labels <- .curve_labels(x, asked$labels, sys.call())
  col <- .curve_colours(x, asked$col, sys.call())
  rows <- if (asked$at.risk) length(x$groups) + 1L else 0L
  small <- if (graphics::par("din")[[1L]] < 4.5) 0.65 else 0.8
  line <- graphics::par("csi") / graphics::par("cex")
  widest <- max(graphics::strwidth(labels, units = "inches", cex = small)) / line
  left <- max(3.8, if (rows) widest + 0.35 / line + 0.2)
  above <- (if (length(x$groups) > 1L) length(x$groups) * small * 1.05 + 0.3 else 0.6) + if (is.null(asked$other$main)) 0 else 1.2
  old <- graphics::par(mar = c(2.9 + rows * small * 1.25, left, above, 0.6), mgp = c(1.7, 0.4, 0), tcl = -0.3)
  on.exit(graphics::par(old))
  axis <- .time_axis(max(x$times), x$unit_of_time, most = max(4, floor((graphics::par("din")[[1L]] - line * left) / 0.4)),
                     units = units, xlab = xlab, call = sys.call())
  if (is.null(ylab)) ylab <- if (is.null(cause)) "event-free probability" else paste("incidence of", cause)
  shown <- c(lines$conf.high, lines$estimate)
  top <- if (is.null(cause)) 1 else if (any(is.finite(shown))) max(shown[is.finite(shown)]) else 1
  foreground <- graphics::par("fg")
  graphics::plot.new()
  graphics::plot.window(xlim = c(0, 1.02 * axis$end), ylim = c(0, top), xaxs = "i")
  graphics::axis(2, las = 1, cex.axis = small + 0.1, col = foreground, col.axis = foreground)
  graphics::axis(1, at = axis$ticks, labels = axis$labels, cex.axis = small + 0.1, col = foreground, col.axis = foreground)
  graphics::box(bty = "l", col = foreground)
  do.call(graphics::title, c(list(
    xlab = axis$title, cex.lab = small + 0.1, col.lab = foreground
  ), asked$other[names(asked$other) != "main"]))
  graphics::title(ylab = ylab, line = 2.6, cex.lab = small + 0.1, col.lab = foreground)
  if (!is.null(asked$other$main)) graphics::title(main = asked$other$main, line = above - 1.2, cex.main = small + 0.2, col.main = foreground)
  for (k in seq_along(x$groups)) {
    own <- lines[lines$group == x$groups[[k]], ]
    if (!nrow(own)) next
    if (own$joined[[1L]]) {
      if (conf.int) .joined_band(own, col[[k]])
      graphics::lines(own$time, own$estimate, col = col[[k]], lwd = 2)
      ends <- table[table$group == x$groups[[k]] & is.finite(table$estimate), ]
      graphics::points(ends$time, ends$estimate, pch = 19, cex = 0.6, col = col[[k]])
      if (conf.int) graphics::segments(ends$time, ends$conf.low, ends$time, ends$conf.high, col = col[[k]])
    } else {
      edges <- c(own$time, 1.02 * axis$end)
      if (conf.int) .band(edges, own$conf.low, own$conf.high, col[[k]])
      graphics::lines(edges, c(own$estimate, own$estimate[nrow(own)]), type = "s", col = col[[k]], lwd = 2)
    }
  }
  if (!nrow(lines)) graphics::text(0.5 * axis$end, 0.5 * top, "N/A: too few people for the noise", cex = small, col = foreground)
  if (asked$median && is.null(cause)) {
    middle <- x$medians$estimate
    for (k in which(is.finite(middle))) {
      graphics::segments(c(0, middle[[k]]), c(0.5, 0), middle[[k]], 0.5, lty = 3, col = col[[k]])
    }
  }
  p <- if (asked$p.value && is.null(cause)) .curve_p(x)
  if (!is.null(p)) {
    width <- graphics::strwidth(p, cex = small)
    ground <- if (.is_dark()) "black" else "white"
    graphics::rect(0.01 * axis$end, 0.015, 0.03 * axis$end + width, 0.085, col = ground, border = NA)
    graphics::text(0.02 * axis$end, 0.05, p, adj = 0, cex = small, col = foreground)
  }
  if (length(x$groups) > 1L) {
    graphics::legend(
      graphics::grconvertX(0, "npc"), graphics::grconvertY(1, "npc"), labels, col = col, lwd = 2, bty = "n", cex = small,
      xpd = NA, yjust = 0, xjust = 0, y.intersp = 0.9, text.col = foreground
    )
  }
  if (asked$at.risk) .draw_at_risk(x, axis, labels, col, small)
  invisible(x)
}

autoplot.dp_curves <- function(object, conf.int = TRUE, at.risk = TRUE, median = TRUE, p.value = TRUE, labels = NULL,
                               cause = NULL, units = NULL, ...) {
  asked <- .as_in_survminer(list(...), list(at.risk = at.risk, median = median, p.value = p.value, labels = labels, col = NULL))
  table <- .curve_rows(object, cause)
  labels <- .curve_labels(object, asked$labels, sys.call())
  axis <- .time_axis(max(object$times), object$unit_of_time, units = units, call = sys.call())
  lines <- .drawn_rows(object, cause)
  lines$group <- factor(lines$group, object$groups, labels)
  ends <- table[is.finite(table$estimate) & table$group %in% object$groups[labels %in% lines$group[lines$joined]], ]
  ends$group <- factor(ends$group, object$groups, labels)
  stepped <- do.call(rbind, lapply(split(lines[!lines$joined, ], lines$group[!lines$joined], drop = TRUE), function(own) {
    transform(own, until = c(own$time[-1L], 1.02 * axis$end))
  }))
  joined <- lines[lines$joined, ]
  aes <- function(...) do.call(ggplot2::aes, lapply(c(...), as.name))
  drawn <- ggplot2::ggplot(lines, aes(x = "time", y = "estimate", colour = "group"))
  if (conf.int && nrow(joined)) {
    drawn <- drawn + ggplot2::geom_ribbon(
      aes(x = "time", ymin = "conf.low", ymax = "conf.high", fill = "group"), data = joined[is.finite(joined$conf.low), ],
      alpha = 0.15, colour = NA, inherit.aes = FALSE
    ) + ggplot2::geom_linerange(aes(ymin = "conf.low", ymax = "conf.high"), data = ends[is.finite(ends$conf.low), ])
  }
  if (conf.int && !is.null(stepped)) {
    drawn <- drawn + ggplot2::geom_rect(
      aes(xmin = "time", xmax = "until", ymin = "conf.low", ymax = "conf.high", fill = "group"),
      data = stepped[is.finite(stepped$conf.low), ], alpha = 0.15, colour = NA, inherit.aes = FALSE
    )
  }
  if (nrow(joined)) drawn <- drawn + ggplot2::geom_line(data = joined) + ggplot2::geom_point(data = ends, size = 1.2)
  if (!is.null(stepped)) drawn <- drawn + ggplot2::geom_step(data = stepped)
  if (!nrow(lines)) {
    drawn <- drawn + ggplot2::expand_limits(x = c(0, axis$end), y = c(0, 1)) +
      ggplot2::annotate("text", x = axis$end / 2, y = 0.5, label = "N/A: too few people for the noise", size = 3)
  }
  middle <- object$medians$estimate
  if (asked$median && is.null(cause) && any(is.finite(middle))) {
    reached <- data.frame(x = middle[is.finite(middle)], group = factor(object$groups, object$groups, labels)[is.finite(middle)])
    drawn <- drawn + ggplot2::annotate("segment", x = 0, xend = max(reached$x), y = 0.5, yend = 0.5, linetype = 3, colour = "grey50") +
      ggplot2::geom_segment(aes(x = "x", xend = "x", colour = "group"), y = 0, yend = 0.5, data = reached, linetype = 3,
                            inherit.aes = FALSE, show.legend = FALSE)
  }
  several <- length(object$groups) > 1L
  if (length(labels) < length(.colours)) {
    bright <- .colours[-1L] # seen on light and on dark grounds
    drawn <- drawn + ggplot2::scale_colour_manual(values = bright, aesthetics = c("colour", "fill"))
  }
  drawn + ggplot2::scale_x_continuous(breaks = axis$ticks, labels = .ticks_with_numbers(object, axis, asked$at.risk)) +
    ggplot2::coord_cartesian(ylim = c(0, if (is.null(cause)) 1 else NA)) +
    ggplot2::guides(colour = if (several) "legend" else "none", fill = if (several) "legend" else "none") +
    ggplot2::theme(legend.position = "top") +
    ggplot2::labs(
      x = axis$title, y = if (is.null(cause)) "event-free probability" else paste("incidence of", cause), colour = NULL,
      fill = NULL, subtitle = if (asked$p.value && is.null(cause)) .curve_p(object),
      caption = if (asked$at.risk) {
        paste0(.at_risk_title(object), if (several) paste0(", from above:\n", paste(labels, collapse = "; ")))
      }
    )
}

# Arguments by survminer's names: risk.table, pval, surv.median.line, legend.labs, palette; the rest goes on to title().
.as_in_survminer <- function(given, asked) {
  own <- c(risk.table = "at.risk", pval = "p.value", surv.median.line = "median", legend.labs = "labels", palette = "col")
  for (name in intersect(names(given), names(own))) asked[own[[name]]] <- list(given[[name]])
  if (is.character(asked$median)) asked$median <- !identical(asked$median, "none")
  c(asked, list(other = given[setdiff(names(given), names(own))]))
}

.curve_labels <- function(x, labels, call) {
  if (is.null(labels)) return(x$groups)
  if (length(labels) != length(x$groups)) {
    .refuse(paste0("labels must be ", length(x$groups), " texts, one for each group"), call)
  }
  as.character(labels)
}

# Black is white where the device's background is dark, and light colours come first.
.curve_colours <- function(x, col, call) {
  if (!is.null(col)) return(rep_len(col, length(x$groups)))
  if (length(x$groups) > length(.colours)) {
    .refuse(paste0("a figure shows up to ", length(.colours), " groups, not ", length(x$groups), ": give col="), call)
  }
  if (.is_dark()) c("#FFFFFF", .colours[c(7L, 6L, 4L, 5L, 3L, 2L)]) else .colours
}

.is_dark <- function() mean(grDevices::col2rgb(graphics::par("fg"))) > 127

# What stands in the corner, where groups are compared: NULL where they are not.
.curve_p <- function(x) {
  if (sum(is.finite(x$medians$people)) < 2L || length(x$groups) <= 1L) return(NULL)
  found <- tryCatch(dp_logrank_test(x), dp_argument_error = function(condition) NULL)
  if (is.null(found)) return(NULL)
  paste("log-rank", if (found$p.value < 0.001) "p < 0.001" else sprintf("p = %.3f", found$p.value))
}

.at_risk_title <- function(x) if (x$source == "private") "number at risk (noisy)" else "number at risk"

# People at risk at the ticks, as text: a row for each group.
.at_risk_texts <- function(x, axis) {
  found <- .py("curves_at", list(curves = x, times = axis$ticks))
  if (!is.null(found$cause)) found <- found[found$cause == "(event-free)", ]
  group <- ifelse(is.na(found$group), "all", found$group)
  texts <- vapply(x$groups, function(own) {
    numbers <- found$at_risk[group == own]
    ifelse(is.na(numbers), "N/A", formatC(round(pmax(numbers, 0)), format = "d"))
  }, character(length(axis$ticks)))
  matrix(texts, nrow = length(axis$ticks))
}

.ticks_with_numbers <- function(x, axis, at.risk) {
  if (!at.risk) return(axis$labels)
  paste(axis$labels, apply(.at_risk_texts(x, axis), 1L, paste, collapse = "\n"), sep = "\n\n")
}

# The rows of one curve per group, with text for the groups.
.curve_rows <- function(x, cause) {
  table <- as.data.frame.dp_curves(x)
  if (!is.null(table$cause)) table <- table[table$cause == (if (is.null(cause)) "(event-free)" else match.arg(cause, x$causes)), ]
  table$group <- ifelse(is.na(table$group), "all", table$group)
  table
}

# The lines of a figure, a row per point: of one curve per group, with text for the groups.
.drawn_rows <- function(x, cause) {
  table <- .broom_names(.py("curves_drawn", list(curves = x, cause = if (!is.null(cause)) match.arg(cause, x$causes))))
  table$group <- ifelse(is.na(table$group), "all", table$group)
  table[is.finite(table$estimate), ]
}

# A band of what is joined by straight lines.
.joined_band <- function(own, colour) {
  own <- own[is.finite(own$conf.low) & is.finite(own$conf.high), ]
  graphics::polygon(c(own$time, rev(own$time)), c(own$conf.low, rev(own$conf.high)), border = NA,
                    col = grDevices::adjustcolor(colour, 0.15))
}

# The axis in the units asked for, or in those that a title names, or with another title in the declared unit; else days
# are shown as years, months or weeks where there are two of these.
.time_axis <- function(end, unit, most = 8, units = NULL, xlab = NULL, call = NULL) {
  lengths <- c(days = 1, weeks = 7, months = 365.25 / 12, years = 365.25)
  own <- if (is.null(unit) || is.na(unit)) NA else paste0(sub("s$", "", tolower(trimws(unit))), "s")
  if (!is.null(units) && !(is.character(units) && length(units) == 1L && units %in% names(lengths))) {
    .refuse(paste0("units must be one of ", paste0("\"", names(lengths), "\"", collapse = ", ")), call)
  }
  if (!is.null(units) && !own %in% names(lengths)) {
    .refuse("units needs times declared in days, weeks, months or years: dp_duration(horizon, unit = \"days\")", call)
  }
  shown <- if (is.na(own)) NULL else unit
  length <- 1
  if (own %in% names(lengths)) {
    fitting <- names(lengths)[lengths >= lengths[[own]] & end * lengths[[own]] >= 2 * lengths]
    named <- if (is.character(xlab)) names(lengths)[vapply(sub("s$", "", names(lengths)), function(each) {
      any(grepl(paste0("\\b", each, "s?\\b"), xlab, ignore.case = TRUE))
    }, NA)]
    shown <- if (!is.null(units)) units
    else if (length(named) == 1L) named
    else if (!is.null(xlab)) own
    else c(own, fitting)[[length(fitting) + 1L]]
    length <- lengths[[shown]] / lengths[[own]]
  }
  wanted <- min(most, 8)
  ticks <- pretty(c(0, end / length), wanted - 1)
  while (length(ticks) > wanted + 2 && wanted > 2) {
    wanted <- wanted - 1
    ticks <- pretty(c(0, end / length), wanted)
  }
  ticks <- ticks[ticks <= end / length * (1 + 1e-9)]
  title <- if (!is.null(xlab)) xlab else if (is.null(shown)) "time" else paste0("time (", shown, ")")
  list(end = end, ticks = pmin(ticks * length, end), labels = ticks, title = title)
}

.draw_at_risk <- function(x, axis, labels, col, small) {
  texts <- .at_risk_texts(x, axis)
  line <- function(place) 2.7 + place * small * 1.25
  graphics::mtext(.at_risk_title(x), 1, line = line(0), at = 0, adj = 0, cex = small, col = graphics::par("fg"))
  before <- -0.3 * diff(graphics::par("usr")[1:2]) / graphics::par("pin")[[1L]]
  for (k in seq_along(x$groups)) {
    graphics::mtext(labels[[k]], 1, line = line(k), at = before, adj = 1, cex = small, col = col[[k]])
    graphics::mtext(texts[, k], 1, line = line(k), at = axis$ticks, cex = small, col = graphics::par("fg"))
  }
}
