# Figures by what they draw: the numbers of lines, bars and bands, and what is written beside them.

built_of <- function(figure) {
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  ggplot2::ggplot_build(figure)
}

nine <- function() {
  once("nine", {
    rows <- gbsg()
    rows$stage <- rep_len(LETTERS[1:9], nrow(rows))
    rows$cause <- c("none", "relapse", "death")[1L + rows$event + rows$event * (seq_len(nrow(rows)) %% 2)]
    attr(rows$age, "label") <- "Age (years)"
    rows
  })
}

nine_study <- function() {
  dp_study(public = nine(), schema = dp_schema(
    stage = dp_categorical(LETTERS[1:9], label = "Stage"), time = dp_duration(2557, unit = "days", label = "Survival (days)"),
    event = dp_binary(), cause = dp_categorical(c("none", "relapse", "death")), age = dp_continuous(20, 90),
    hormon = dp_binary(label = "Hormone therapy"), size = dp_categorical(c("<=20", "20-50", ">50"), label = "Tumour size")
  ))
}

test_that("labels are those of declarations, then of public rows, and change no hash", {
  need_python()
  study <- nine_study()
  fit <- dp_fit_public(event ~ age + size, data = study)
  texts <- texts_in(calls_of(plot(fit)))
  expect_true(all(c("Age (years)", "Tumour size = 20-50", "Tumour size = >50") %in% texts))
  expect_true("Age" %in% texts_in(calls_of(plot(fit, labels = c(age = "Age")))))
  expect_match(dp_regression_table(list(fit))$text, "Age (years)", fixed = TRUE)
  expect_identical(names(coef(fit)), c("(Intercept)", "age", "size20-50", "size>50"))
  plain <- dp_schema(age = dp_continuous(20, 90), event = dp_binary())
  named <- dp_with_labels(plain, age = "Age (years)")
  expect_output(print(named), "Age (years)", fixed = TRUE)
  expect_identical(dp_with_labels(named, age = NA)$json, plain$json)
  expect_identical(dp_with_labels(plain, labels = nine())$json, named$json)
  column <- dp_continuous(20, 90)
  attr(column, "label") <- "Age (years)"
  expect_identical(dp_schema(age = column, event = dp_binary())$json, named$json)
  expect_match(dp_schema_from_public(nine()["age"])$text, "Age (years)", fixed = TRUE)
  expect_error(dp_with_labels(plain, sex = "Sex"), "not declared: 'sex'", class = "dp_schema_error")
})

test_that("a label that is changed later is no new question", {
  need_python()
  plain <- dp_schema(age = dp_continuous(20, 90), event = dp_binary())
  ledger <- dp_ledger_open(dataset = "labels", epsilon = 1)
  rows <- rotterdam()
  first <- dp_describe(dp_study(private = rows, schema = plain, ledger = ledger), "age", epsilon = 1)
  named <- dp_study(private = rows, schema = dp_with_labels(plain, age = "Age (years)"), ledger = ledger)
  again <- dp_describe(named, "age", epsilon = 1) # the budget is spent: only a recorded answer can be had
  expect_equal(again$table, first$table)
  table <- dp_first_table(again)
  expect_true("Age (years), mean (SD)" %in% table$cells[[1L]])
  expect_true("Age, mean (SD)" %in% dp_first_table(again, labels = c(age = "Age"))$cells[[1L]])
  expect_match(table$latex, "Age (years)", fixed = TRUE)
  expect_output(print(table), "Age (years), mean (SD)", fixed = TRUE)
  file <- withr::local_tempfile(fileext = ".docx")
  dp_write_docx(dp_first_table(again, labels = c(age = "Age")), file)
  expect_gt(file.size(file), 1000)
  expect_error(dp_first_table(again, labels = c(sex = "Sex")), "there is no 'sex'", class = "dp_argument_error")
  expect_error(dp_first_table(1), "x must be a description", class = "dp_argument_error")
})

test_that("curves of more groups than colours have a panel each, whose lines are those of the table", {
  need_python()
  takes_long()
  curves <- dp_survfit_public(Surv(time, event) ~ stage, nine_study())
  calls <- calls_of(expect_identical(plot(curves), curves))
  drawn <- lines_in(calls)
  expect_length(drawn, 9L)
  for (k in 1:9) {
    at <- summary(curves, times = c(500, 1500))$table
    at <- at[at$group == LETTERS[[k]], ]
    expect_equal(stats::approx(drawn[[k]]$x, drawn[[k]]$y, c(500, 1500), method = "constant")$y, at$estimate)
  }
  expect_true(all(c(paste("Stage =", LETTERS[1:9]), "Survival (years)", "number at risk") %in% texts_in(calls)))
  expect_length(unique(vapply(drawn, `[[`, "", "col")), 1L)
  skip_if_not_installed("ggplot2")
  built <- built_of(ggplot2::autoplot(curves))
  expect_identical(nrow(built$layout$layout), 9L)
  step <- which(vapply(built$plot$layers, function(layer) inherits(layer$geom, "GeomStep"), NA))
  expect_equal(sort(built$data[[step]]$y), sort(.drawn_rows(curves, NULL)$estimate))
  text <- which(vapply(built$plot$layers, function(layer) inherits(layer$geom, "GeomText"), NA))
  expect_true("77" %in% built$data[[text]]$label || any(as.numeric(built$data[[text]]$label) > 70))
})

test_that("incidences of several causes are drawn and printed", {
  need_python()
  takes_long()
  curves <- dp_survfit_public(Surv(time, cause) ~ hormon, nine_study())
  drawn <- lines_in(calls_of(plot(curves, cause = c("relapse", "death"))))
  expect_length(drawn, 4L)
  expect_identical(vapply(drawn, function(line) as.integer(line$lty), 1L), c(1L, 1L, 2L, 2L))
  expect_identical(drawn[[1L]]$col, drawn[[3L]]$col)
  at <- summary(curves, times = 1000)$table
  expected <- at$estimate[match(c("relapse 0", "relapse 1", "death 0", "death 1"), paste(at$cause, at$group))]
  found <- vapply(drawn, function(line) stats::approx(line$x, line$y, 1000, method = "constant")$y, 1)
  expect_equal(found, expected)
  printed <- capture.output(print(curves))
  expect_match(printed, "incidence of each cause", all = FALSE)
  last <- as.data.frame(curves)
  last <- last[last$cause == "death" & last$group == "1", ]
  expect_match(printed, format(last$estimate[[nrow(last)]], digits = 3L), fixed = TRUE, all = FALSE)
  expect_match(summary(curves)$text, "Incidence|incidence")
  many <- dp_survfit_public(Surv(time, cause) ~ stage, nine_study())
  calls <- calls_of(plot(many, cause = c("relapse", "death")))
  expect_length(lines_in(calls), 18L)
  expect_length(unique(vapply(lines_in(calls), `[[`, "", "col")), 2L)
  expect_true(all(c("relapse", "death") %in% texts_in(calls)))
  skip_if_not_installed("ggplot2")
  for (found in list(curves, many)) expect_s3_class(built_of(ggplot2::autoplot(found, cause = found$causes)), "ggplot_built")
})

test_that("axes of ratios have plain numbers, and what is not known leaves gaps without a warning", {
  need_python()
  table <- data.frame(label = "a", term = c("x", "y"), estimate = log(c(0.01, 50)), conf.low = log(c(0.001, 20)), conf.high = log(c(0.1, 900)))
  axes <- function(calls) unlist(lapply(Filter(function(call) call$name == "C_axis", calls), function(call) as.character(call$arguments[[3L]])))
  expect_true(all(c("0.001", "0.01", "1", "100") %in% axes(calls_of(.draw_coefficients(table, exponentiate = TRUE, level = 0.95, xlab = NULL)))))
  expect_identical(.plain(c(1e-5, 0.01, 1e5)), c("0.00001", "0.01", "100000"))
  unknown <- transform(table, conf.low = NA_real_, conf.high = NA_real_, estimate = c(NA, 0.3))
  expect_silent(calls_of(.draw_coefficients(unknown, exponentiate = TRUE, level = 0.95, xlab = NULL, numbers = TRUE)))
  expect_silent(calls_of(.draw_coefficients(transform(unknown, estimate = NA_real_), exponentiate = FALSE, level = 0.95, xlab = NULL)))
  band <- data.frame(time = 1:6, conf.low = c(0.1, 0.2, NA, 0.2, 0.3, NA), conf.high = c(0.2, 0.3, NA, 0.4, 0.5, NA))
  calls <- calls_of({
    graphics::plot(1:6, 1:6 / 6)
    .joined_band(band, "red")
  })
  polygons <- Filter(function(call) call$name == "C_polygon", calls)
  expect_equal(lapply(polygons, function(call) call$arguments[[1L]]), list(c(1, 2, 2, 1), c(4, 5, 5, 4)))
  curve <- data.frame(row = "a", start = 0:2, stop = 1:3, hazard = NA_real_, conf.low = NA_real_, conf.high = NA_real_)
  axis <- .time_axis(3, "years")
  expect_silent(calls_of(.draw_curves(curve, value = "hazard", labels = NULL, ylab = NULL, axis = axis)))
})

test_that("ticks of time are Python's, with one at the horizon", {
  need_python()
  axis <- .time_axis(1826, "days")
  expect_identical(axis$labels, as.character(0:5))
  expect_identical(axis$ticks[[6L]], 1826)
  expect_identical(.time_axis(3500, "days", label = "Survival (days)")[c("labels", "title")],
                   list(labels = c("0", "2", "4", "6", "8", "9.58"), title = "Survival (years)"))
})

test_that("intercepts of levels are left out of forests, long labels are wrapped, and dark grounds have light ink", {
  need_python()
  fit <- dp_fit_public(size ~ age + hormon, data = nine_study(), model = "multinomial")
  texts <- texts_in(calls_of(plot(fit)))
  expect_false(any(grepl("Intercept", texts)))
  expect_true(any(grepl("Age (years)", texts, fixed = TRUE)))
  long <- "Tumour size at the first operation above 50 mm, by the pathologist's report"
  names <- names(coef(fit))
  calls <- calls_of(plot(fit, labels = stats::setNames(rep(long, 1L), names[grepl("age", names)][[1L]])), dark = TRUE)
  shown <- Filter(function(text) startsWith(text, "Tumour"), texts_in(calls))
  expect_identical(gsub("\n", " ", shown[[1L]]), long)
  expect_lt(max(nchar(strsplit(shown[[1L]], "\n")[[1L]])), 38)
  bars <- Filter(function(call) call$name == "C_segments", calls)
  expect_true("#56B4E9" %in% unlist(lapply(bars, function(call) Filter(is.character, call$arguments))))
  curves <- lines_in(calls_of(plot(dp_survfit_public(Surv(time, event) ~ hormon, nine_study())), dark = TRUE))
  expect_identical(vapply(curves, `[[`, "", "col"), c("#56B4E9", "#E69F00"))
  skip_if_not_installed("ggplot2")
  drawn_by_ggplot2 <- function() unique(unlist(lapply(built_of(ggplot2::autoplot(shown_curves))$data, function(layer) layer$colour)))
  shown_curves <- dp_survfit_public(Surv(time, event) ~ hormon, nine_study())
  expect_setequal(intersect(drawn_by_ggplot2(), .palette(dark = FALSE)), lines_in(calls_of(plot(shown_curves))) |> vapply(`[[`, "", "col"))
  old <- ggplot2::theme_set(ggplot2::theme_grey() + ggplot2::theme(text = ggplot2::element_text(colour = "grey90")))
  on.exit(ggplot2::theme_set(old))
  expect_setequal(intersect(drawn_by_ggplot2(), .palette(dark = TRUE)), c("#56B4E9", "#E69F00"))
})

test_that("panels of a plan have the labels of coefficients, and terms stay", {
  need_python()
  plan <- dp_plan(event ~ age + size, data = nine_study(), epsilon = c(1, 2), n = 1000)
  texts <- texts_in(calls_of(plot(plan)))
  expect_true(all(c("Age (years)", "Tumour size = 20-50", "Tumour size = >50") %in% texts))
  expect_identical(unique(as.data.frame(plan)$term), c("(Intercept)", "age", "size20-50", "size>50"))
  expect_match(repr::repr_html(plan), "Tumour size = &gt;50", fixed = TRUE)
})

test_that("labels of a forest take at most two fifths of a figure's width", {
  grDevices::pdf(NULL, width = 4, height = 4)
  on.exit(grDevices::dev.off())
  graphics::plot.new()
  narrow <- .beside()
  expect_lt(narrow * 0.55 * graphics::par("csi"), 0.4 * 4 + 0.11)
  expect_match(.wrapped("Age at operation, in completed years", narrow), "\n", fixed = TRUE)
  expect_identical(.wrapped("Age", narrow), "Age")
})

test_that("a legend has room in a row, and is a column where it has none", {
  grDevices::pdf(NULL, width = 5, height = 5)
  on.exit(grDevices::dev.off())
  graphics::plot.new()
  texts <- c("a long name of a first group", "a long name of a second group")
  need <- .legend_width(texts, graphics::strwidth(texts, units = "inches"))
  drawn <- graphics::legend("top", texts, pch = 19, lty = 1, horiz = TRUE, cex = 0.85, plot = FALSE)$rect
  expect_gt(need, 0.95 * diff(graphics::grconvertX(c(drawn$left, drawn$left + drawn$w), "user", "inches")))
})

test_that("long names of groups leave room for curves", {
  need_python()
  name <- "A treatment whose name is as long as names of treatments in protocols are"
  schema <- dp_schema(hormon = dp_binary(label = name), time = dp_duration(2557, unit = "days"), event = dp_binary())
  curves <- dp_survfit_public(Surv(time, event) ~ hormon, data = dp_study(public = gbsg(), schema = schema))
  texts <- texts_in(calls_of(plot(curves)))
  expect_true(all(c("0", "1") %in% texts)) # before numbers at risk
  expect_true(any(grepl("^A treatment whose name", texts))) # the legend
  expect_length(lines_in(calls_of(plot(curves))), length(lines_in(calls_of(plot(curves, labels = c("no", "yes"))))))
})

test_that("rows of a model and coefficients of a plan have panels", {
  need_python()
  takes_long()
  fit <- dp_fit_public(Surv(time, event) ~ age + hormon, data = nine_study())
  people <- data.frame(age = seq(30, 80, length.out = 8), hormon = 0)
  drawn <- lines_in(calls_of(plot(fit, newdata = people)))
  expect_length(drawn, 8L)
  expected <- predict(fit, people, times = 1500)$survival
  expect_equal(vapply(drawn, function(line) stats::approx(line$x, line$y, 1500)$y, 1), expected, tolerance = 1e-5)
  plan <- dp_plan(event ~ age + hormon, data = nine_study(), epsilon = c(0.01, 0.1, 1), n = 2000)
  calls <- calls_of(plot(plan))
  expect_true(all(c("Age (years)", "Hormone therapy", "0.01", "reported") %in% texts_in(calls)))
  table <- as.data.frame(plan)
  drawn <- lines_in(calls)
  expect_length(drawn, 4L)
  expect_equal(drawn[[2L]]$y, table$std.error[table$term == "age"])
  expect_equal(drawn[[1L]]$y, table$private.only[table$term == "age"])
})
