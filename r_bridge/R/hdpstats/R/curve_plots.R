# Figures of survival curves, in base graphics and for ggplot2: lines and bands by group, medians, the test, and the
# numbers at risk below. Lines are those of summary(times = ): hazards are constant within intervals. More than seven lines
# have a panel for each group. Arguments may have survminer's names.

plot.dp_curves <- function(x, conf.int = TRUE, at.risk = TRUE, median = TRUE, p.value = TRUE, labels = NULL, cause = NULL,
                           col = NULL, xlab = NULL, ylab = NULL, units = NULL, ...) {
  asked <- .as_in_survminer(list(...), list(at.risk = at.risk, median = median, p.value = p.value, labels = labels, col = col))
  asked <- c(asked, list(conf.int = conf.int, cause = .causes_of(x, cause), xlab = xlab, units = units, call = sys.call()))
  labels <- .curve_labels(x, asked$labels, sys.call())
  lines <- .lines_of(x, asked$cause, labels, asked$col, sys.call())
  asked$ylab <- if (!is.null(ylab)) ylab else .curves_title(asked$cause)
  asked$top <- if (is.null(asked$cause)) 1 else .highest(lapply(lines, function(line) line$rows[c("estimate", if (conf.int) "conf.high")]))
  if (!lines[[1L]]$apart) {
    .draw_panel(x, seq_along(x$groups), lines, labels, asked)
    return(invisible(x))
  }
  old <- graphics::par(mfrow = .panels(length(x$groups)), oma = c(0, 0, 1.5, 0), mar = graphics::par("mar"))
  on.exit(graphics::par(old))
  for (k in seq_along(x$groups)) .draw_panel(x, k, lines[vapply(lines, function(line) line$group == k, NA)], labels, asked)
  ink <- graphics::par("fg")
  p <- if (asked$p.value && is.null(asked$cause)) .curve_p(x)
  if (!is.null(p)) graphics::mtext(p, 3, outer = TRUE, adj = 0, cex = 0.7, col = ink)
  if (length(asked$cause) > 1L) {
    col <- vapply(lines[vapply(lines, function(line) line$group == 1L, NA)], `[[`, "", "col")
    graphics::par(mfrow = c(1, 1), mar = c(0, 0, 0, 0), oma = c(0, 0, 0, 0), new = TRUE)
    graphics::plot.new()
    graphics::legend("topleft", asked$cause, col = col, lwd = 2, horiz = TRUE, bty = "n", cex = 0.8, text.col = ink)
  }
  invisible(x)
}

# Rows and columns of panels for so many lines.
.panels <- function(count) {
  across <- min(ceiling(sqrt(count)), 4)
  c(ceiling(count / across), across)
}

.causes_of <- function(x, cause) if (is.null(cause)) NULL else match.arg(cause, x$causes, several.ok = TRUE)

.curves_title <- function(cause) {
  if (is.null(cause)) "event-free probability" else if (length(cause) == 1L) paste("incidence of", cause) else "cumulative incidence"
}

# The largest of numbers that are there; 1 where none is.
.highest <- function(values) {
  values <- unlist(values)
  values <- values[is.finite(values)]
  if (length(values)) max(values) else 1
}

# The lines of a figure: of each group, or of each cause in each group. As in Python groups have colours and causes kinds of
# lines; causes have colours where a group is alone, in a figure or in a panel of its own.
.lines_of <- function(x, causes, labels, col, call) {
  shown <- if (is.null(causes)) list(NULL) else as.list(causes)
  groups <- length(x$groups)
  apart <- groups > 1L && max(groups, groups * length(shown)) > length(.colours) && is.null(col)
  by_cause <- length(shown) > 1L && (groups == 1L || apart)
  colours <- .curve_colours(x, col, if (by_cause) length(shown) else if (apart) 1L else groups)
  lines <- list()
  for (place in seq_along(shown)) {
    drawn <- .drawn_rows(x, shown[[place]])
    table <- .curve_rows(x, shown[[place]])
    for (k in seq_along(x$groups)) {
      label <- c(if (!by_cause) labels[[k]], if (length(shown) > 1L) shown[[place]])
      ends <- table[table$group == x$groups[[k]] & is.finite(table$estimate), ]
      lines[[length(lines) + 1L]] <- list(
        group = k, label = paste(label, collapse = ", "), apart = apart, rows = drawn[drawn$group == x$groups[[k]], ], ends = ends,
        col = colours[[if (by_cause) place else if (apart) 1L else k]], lty = if (by_cause) 1L else (place - 1L) %% 4L + 1L
      )
    }
  }
  lines
}

# One panel: the lines of some groups, with what is written around them.
.draw_panel <- function(x, groups, lines, labels, asked) {
  alone <- !lines[[1L]]$apart
  named <- alone && length(lines) > 1L
  foreground <- graphics::par("fg")
  small <- if (!alone || graphics::par("din")[[1L]] < 4.5) 0.65 else 0.8
  rows <- if (asked$at.risk) length(groups) + 1L else 0L
  line <- graphics::par("csi") / graphics::par("cex")
  before <- .names_at_risk(x, labels)
  widest <- if (alone) max(graphics::strwidth(before, units = "inches", cex = small)) / line else 0
  left <- max(3.8, if (rows && alone) widest + 0.35 / line + 0.2)
  letters <- max(12L, as.integer((graphics::par("fin")[[1L]] - line * left) / (0.55 * small * line)) - 6L)
  legends <- if (named) .wrapped(vapply(lines, `[[`, "", "label"), letters) else character()
  high <- length(lines) * max(lengths(strsplit(legends, "\n", fixed = TRUE)), 0L) * small * 1.05 * line
  if (named && high > 0.35 * graphics::par("fin")[[2L]]) {
    legends <- vapply(lines, function(each) sub(labels[[each$group]], before[[each$group]], each$label, fixed = TRUE), "")
  }
  above <- (if (named) length(lines) * max(lengths(strsplit(legends, "\n", fixed = TRUE))) * small * 1.05 + 0.3 else if (alone) 0.6 else 1.3) + if (is.null(asked$other$main)) 0 else 1.2
  old <- graphics::par(mar = c(2.9 + rows * small * 1.25, left, above, 0.6), mgp = c(1.7, 0.4, 0), tcl = -0.3)
  on.exit(graphics::par(old))
  width <- graphics::par("fin")[[1L]] - line * left
  axis <- .time_axis(max(x$times), x$unit_of_time, most = max(3, floor(width / 0.4)), units = asked$units, xlab = asked$xlab,
                     call = asked$call, label = x$label_of_time)
  graphics::plot.new()
  graphics::plot.window(xlim = c(0, 1.02 * axis$end), ylim = c(0, asked$top), xaxs = "i")
  graphics::axis(2, las = 1, cex.axis = small + 0.1, col = foreground, col.axis = foreground)
  graphics::axis(1, at = axis$ticks, labels = axis$labels, cex.axis = small + 0.1, col = foreground, col.axis = foreground)
  graphics::box(bty = "l", col = foreground)
  do.call(graphics::title, c(list(
    xlab = axis$title, cex.lab = small + 0.1, col.lab = foreground
  ), asked$other[names(asked$other) != "main"]))
  graphics::title(ylab = asked$ylab, line = 2.6, cex.lab = small + 0.1, col.lab = foreground)
  if (!is.null(asked$other$main)) graphics::title(main = asked$other$main, line = above - 1.2, cex.main = small + 0.2, col.main = foreground)
  if (!alone) graphics::mtext(labels[[groups]], 3, line = 0.2, adj = 0, cex = small, col = foreground)
  for (each in lines) .draw_line(each, axis$end, asked$conf.int)
  if (!any(vapply(lines, function(each) nrow(each$rows) > 0L, NA))) {
    graphics::text(0.5 * axis$end, 0.5 * asked$top, "N/A: too few people for the noise", cex = small, col = foreground)
  }
  if (asked$median && is.null(asked$cause)) {
    middle <- x$medians$estimate
    for (k in seq_along(lines)) {
      reached <- middle[[lines[[k]]$group]]
      if (is.finite(reached)) graphics::segments(c(0, reached), c(0.5, 0), reached, 0.5, lty = 3, col = lines[[k]]$col)
    }
  }
  p <- if (alone && asked$p.value && is.null(asked$cause)) .curve_p(x)
  if (!is.null(p)) {
    width <- graphics::strwidth(p, cex = small)
    ground <- if (.is_dark()) "black" else "white"
    graphics::rect(0.01 * axis$end, 0.015, 0.03 * axis$end + width, 0.085, col = ground, border = NA)
    graphics::text(0.02 * axis$end, 0.05, p, adj = 0, cex = small, col = foreground)
  }
  if (named) {
    graphics::legend(
      graphics::grconvertX(0, "npc"), graphics::grconvertY(1, "npc"), legends,
      col = vapply(lines, `[[`, "", "col"), lty = vapply(lines, `[[`, 1L, "lty"), lwd = 2, bty = "n", cex = small,
      xpd = NA, yjust = 0, xjust = 0, y.intersp = 0.2 + 0.7 * max(lengths(strsplit(legends, "\n", fixed = TRUE))), text.col = foreground
    )
  }
  if (asked$at.risk) {
    col <- if (is.null(asked$cause)) vapply(lines, `[[`, "", "col") else rep(foreground, length(groups))
    .draw_at_risk(x, groups, axis, if (alone) before else rep("", length(labels)), col, small)
  }
}

# What stands before numbers at risk, as in Python: the names of groups, or where these are long their levels.
.names_at_risk <- function(x, labels) {
  if (max(nchar(labels)) <= 32L) return(labels)
  own <- as.character(x$groups)
  ifelse(nchar(own) > 32L, paste0(substr(own, 1L, 31L), "\u2026"), own)
}

.draw_line <- function(line, end, conf.int) {
  own <- line$rows
  if (!nrow(own)) return(invisible())
  if (own$joined[[1L]]) {
    if (conf.int) .joined_band(own, line$col)
    graphics::lines(own$time, own$estimate, col = line$col, lty = line$lty, lwd = 2)
    graphics::points(line$ends$time, line$ends$estimate, pch = 19, cex = 0.6, col = line$col)
    if (conf.int) graphics::segments(line$ends$time, line$ends$conf.low, line$ends$time, line$ends$conf.high, col = line$col)
  } else {
    edges <- c(own$time, 1.02 * end)
    if (conf.int) .band(edges, own$conf.low, own$conf.high, line$col)
    graphics::lines(edges, c(own$estimate, own$estimate[nrow(own)]), type = "s", col = line$col, lty = line$lty, lwd = 2)
  }
}

autoplot.dp_curves <- function(object, conf.int = TRUE, at.risk = TRUE, median = TRUE, p.value = TRUE, labels = NULL,
                               cause = NULL, units = NULL, ...) {
  asked <- .as_in_survminer(list(...), list(at.risk = at.risk, median = median, p.value = p.value, labels = labels, col = NULL))
  cause <- .causes_of(object, cause)
  labels <- .curve_labels(object, asked$labels, sys.call())
  axis <- .time_axis(max(object$times), object$unit_of_time, units = units, call = sys.call(), label = object$label_of_time)
  found <- .lines_of(object, cause, labels, NULL, sys.call())
  apart <- found[[1L]]$apart
  by_cause <- length(cause) > 1L && (apart || length(object$groups) == 1L)
  named <- function(line, rows) {
    if (!nrow(rows)) return(NULL)
    rows$panel <- factor(labels[[line$group]], labels)
    rows$group <- factor(if (by_cause || apart) line$label else labels[[line$group]],
                         if (by_cause) cause else if (apart) unique(vapply(found, `[[`, "", "label")) else labels)
    rows$kind <- factor(if (length(cause) > 1L && !by_cause) cause[[line$lty]] else "", if (length(cause) > 1L) cause else "")
    rows$line <- line$label
    rows
  }
  lines <- do.call(rbind, lapply(found, function(line) named(line, line$rows)))
  ends <- do.call(rbind, lapply(found, function(line) if (any(line$rows$joined)) named(line, line$ends)))
  stepped <- do.call(rbind, lapply(found, function(line) {
    own <- line$rows[!line$rows$joined, ]
    named(line, if (nrow(own)) transform(own, until = c(own$time[-1L], 1.02 * axis$end)) else own)
  }))
  joined <- lines[lines$joined, ]
  aes <- function(...) do.call(ggplot2::aes, lapply(c(...), as.name))
  several <- length(cause) > 1L && !by_cause
  mapped <- c(x = "time", y = "estimate", if (!apart || by_cause) c(colour = "group"), group = "line", if (several) c(linetype = "kind"))
  filled <- if (!apart || by_cause) c(fill = "group")
  drawn <- ggplot2::ggplot(lines, aes(mapped))
  if (is.null(lines)) {
    drawn <- ggplot2::ggplot() + ggplot2::expand_limits(x = c(0, axis$end), y = c(0, 1)) +
      ggplot2::annotate("text", x = axis$end / 2, y = 0.5, label = "N/A: too few people for the noise", size = 3)
  }
  if (conf.int && NROW(joined)) {
    drawn <- drawn + ggplot2::geom_ribbon(
      aes(x = "time", ymin = "conf.low", ymax = "conf.high", group = "line", filled), data = joined[is.finite(joined$conf.low), ],
      alpha = 0.15, colour = NA, inherit.aes = FALSE
    ) + do.call(ggplot2::geom_linerange, c(
      list(aes(ymin = "conf.low", ymax = "conf.high"), data = ends[is.finite(ends$conf.low), ]),
      if (apart && !by_cause) list(colour = .theme_palette()[[1L]])
    ))
  }
  if (conf.int && !is.null(stepped)) {
    drawn <- drawn + ggplot2::geom_rect(
      aes(xmin = "time", xmax = "until", ymin = "conf.low", ymax = "conf.high", filled),
      data = stepped[is.finite(stepped$conf.low), ], alpha = 0.15, colour = NA, inherit.aes = FALSE
    )
  }
  seen <- if (apart && !by_cause) list(colour = .theme_palette()[[1L]])
  layer <- function(geom, ...) do.call(geom, c(list(...), seen))
  if (NROW(joined)) drawn <- drawn + layer(ggplot2::geom_line, data = joined) + layer(ggplot2::geom_point, data = ends, size = 1.2)
  if (!is.null(stepped)) drawn <- drawn + layer(ggplot2::geom_step, data = stepped)
  middle <- object$medians$estimate
  if (asked$median && is.null(cause) && any(is.finite(middle))) {
    reached <- data.frame(x = middle, panel = factor(labels, labels), group = factor(labels, labels), y = 0.5, zero = 0)
    reached <- reached[is.finite(middle), ]
    drawn <- drawn +
      ggplot2::geom_segment(aes(x = "zero", xend = "x", y = "y", yend = "y"), data = reached, linetype = 3, colour = "grey50", inherit.aes = FALSE) +
      do.call(ggplot2::geom_segment, c(
        list(aes(x = "x", xend = "x", y = "zero", yend = "y", if (!apart) c(colour = "group")), data = reached, linetype = 3,
             inherit.aes = FALSE, show.legend = FALSE), if (apart) list(colour = "grey50")
      ))
  }
  legend <- length(unique(lines$line)) > 1L && (!apart || by_cause)
  if (NROW(lines) && nlevels(lines$group) <= length(.colours)) {
    drawn <- drawn + ggplot2::scale_colour_manual(values = .theme_palette(), aesthetics = c("colour", "fill"), labels = function(names) .wrapped(names, 64L))
  }
  if (apart) drawn <- drawn + .facets_with_numbers(object, axis, labels, asked$at.risk)
  else drawn <- drawn + ggplot2::scale_x_continuous(breaks = axis$ticks, labels = .ticks_with_numbers(object, axis, asked$at.risk))
  drawn + ggplot2::coord_cartesian(ylim = c(if (apart && asked$at.risk) NA else 0, if (is.null(cause)) 1 else NA)) +
    ggplot2::guides(colour = if (legend) "legend" else "none", fill = if (legend) "legend" else "none",
                    linetype = if (several) ggplot2::guide_legend(override.aes = list(colour = "grey50")) else "none") +
    ggplot2::theme(legend.position = "top", legend.direction = if (max(nchar(labels)) > 32L) "vertical" else "horizontal") +
    ggplot2::labs(
      x = axis$title, y = .curves_title(cause), colour = NULL, fill = NULL, linetype = NULL,
      subtitle = if (asked$p.value && is.null(cause)) .curve_p(object),
      caption = if (asked$at.risk) {
        paste0(.at_risk_title(object), if (apart) ": below the lines" else if (length(labels) > 1L) {
          paste0(", from above:\n", paste(strwrap(paste(.names_at_risk(object, labels), collapse = "; "), 80L), collapse = "\n"))
        })
      }
    )
}

# A panel for each group, with its numbers at risk below its line.
.facets_with_numbers <- function(x, axis, labels, at.risk) {
  few <- axis$ticks[seq(1L, length(axis$ticks), by = max(1L, ceiling(length(axis$ticks) / 4)))]
  shown <- match(few, axis$ticks)
  parts <- list(ggplot2::facet_wrap("panel"), ggplot2::scale_x_continuous(breaks = few, labels = axis$labels[shown]))
  if (!at.risk) return(parts)
  texts <- .at_risk_texts(x, axis)[shown, , drop = FALSE]
  numbers <- data.frame(time = rep(few, ncol(texts)), text = as.vector(texts), low = -0.1,
                        panel = factor(rep(labels, each = nrow(texts)), labels))
  c(parts, list(ggplot2::geom_text(
    do.call(ggplot2::aes, lapply(c(x = "time", y = "low", label = "text"), as.name)), data = numbers, size = 2.6, colour = "grey50",
    inherit.aes = FALSE
  )))
}

# Arguments by survminer's names: risk.table, pval, surv.median.line, legend.labs, palette; the rest goes on to title().
.as_in_survminer <- function(given, asked) {
  own <- c(risk.table = "at.risk", pval = "p.value", surv.median.line = "median", legend.labs = "labels", palette = "col")
  for (name in intersect(names(given), names(own))) asked[own[[name]]] <- list(given[[name]])
  if (is.character(asked$median)) asked$median <- !identical(asked$median, "none")
  c(asked, list(other = given[setdiff(names(given), names(own))]))
}

.curve_labels <- function(x, labels, call) {
  if (is.null(labels)) return(x$names)
  if (length(labels) != length(x$groups)) {
    .refuse(paste0("labels must be ", length(x$groups), " texts, one for each group"), call)
  }
  as.character(labels)
}

# Colours for so many lines, or those asked for.
.curve_colours <- function(x, col, count) {
  if (!is.null(col)) return(rep_len(col, max(length(x$groups), count)))
  rep_len(.palette(), count)
}

.is_dark <- function() mean(grDevices::col2rgb(graphics::par("fg"))) > 127

# The same colours for ggplot2, on the ground of the theme that is set (`theme_set`); on any ground the first six are seen.
.theme_palette <- function() {
  text <- ggplot2::calc_element("text", ggplot2::theme_get())$colour
  .palette(dark = !is.null(text) && mean(grDevices::col2rgb(text)) > 127)
}

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

# A band of what is joined by straight lines, with gaps where it is not known.
.joined_band <- function(own, colour) {
  known <- is.finite(own$conf.low) & is.finite(own$conf.high)
  run <- cumsum(c(TRUE, diff(known) != 0))
  for (part in split(own[known, ], run[known])) {
    graphics::polygon(c(part$time, rev(part$time)), c(part$conf.low, rev(part$conf.high)), border = NA,
                      col = grDevices::adjustcolor(colour, 0.15))
  }
}

# The axis in the units asked for, or in those that a title names, or with another title in the declared unit; else days
# are shown as years, months or weeks where there are two of these. Ticks are those of Python's figures.
.time_axis <- function(end, unit, most = 8, units = NULL, xlab = NULL, call = NULL, label = NULL) {
  known <- c("days", "weeks", "months", "years")
  own <- if (is.null(unit) || is.na(unit)) NA else paste0(sub("s$", "", tolower(trimws(unit))), "s")
  if (!is.null(units) && !(is.character(units) && length(units) == 1L && units %in% known)) {
    .refuse(paste0("units must be one of ", paste0("\"", known, "\"", collapse = ", ")), call)
  }
  if (!is.null(units) && !own %in% known) {
    .refuse("units needs times declared in days, weeks, months or years: dp_duration(horizon, unit = \"days\")", call)
  }
  if (is.null(units) && own %in% known && !is.null(xlab)) {
    named <- if (is.character(xlab)) known[vapply(sub("s$", "", known), function(each) {
      any(grepl(paste0("\\b", each, "s?\\b"), xlab, ignore.case = TRUE))
    }, NA)]
    units <- if (length(named) == 1L) named else own
  }
  if (is.null(unit) || is.na(unit)) unit <- NULL
  found <- .py("time_axis", list(end = end, unit = unit, units = units, most = max(1, min(most, 8)), label = label))
  list(end = end, ticks = as.numeric(found$ticks), labels = as.character(found$labels), title = if (is.null(xlab)) found$title else xlab)
}

.draw_at_risk <- function(x, groups, axis, labels, col, small) {
  texts <- .at_risk_texts(x, axis)
  line <- function(place) 2.7 + place * small * 1.25
  graphics::mtext(.at_risk_title(x), 1, line = line(0), at = 0, adj = 0, cex = small, col = graphics::par("fg"))
  before <- -0.3 * diff(graphics::par("usr")[1:2]) / graphics::par("pin")[[1L]]
  small <- small * if (any(graphics::par("mfrow") > 1L)) 0.85 else 1
  for (place in seq_along(groups)) {
    k <- groups[[place]]
    graphics::mtext(labels[[k]], 1, line = line(place), at = before, adj = 1, cex = small, col = col[[place]])
    graphics::mtext(texts[, k], 1, line = line(place), at = axis$ticks, cex = small, col = graphics::par("fg"))
  }
}
