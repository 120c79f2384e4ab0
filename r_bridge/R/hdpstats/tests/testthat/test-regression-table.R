test_that("crude and adjusted ratios stand side by side, with reference levels and labels", {
  need_python()
  study <- public_study()
  crude <- list(dp_fit_public(event3 ~ age, study), dp_fit_public(event3 ~ size, study))
  adjusted <- dp_fit_public(event3 ~ age + size, study)
  labels <- c(age = "Age (years)", size = "Tumour size")
  found <- dp_regression_table(list(Crude = crude, Adjusted = adjusted), labels = labels)
  table <- tidy(found)
  expect_identical(unique(table$column), c("Crude", "Adjusted"))
  expect_identical(table$level[table$reference], c("<=20", "<=20"))
  own <- table[table$column == "Adjusted" & !table$reference, ]
  expect_equal(own$estimate, unname(exp(coef(adjusted)[-1L])))
  expect_equal(own$conf.high, unname(exp(confint(adjusted)[-1L, 2L])))
  expect_output(print(found), "Age (years)", fixed = TRUE)
  expect_true(all(c("Age (years)", "Tumour size", "N", "Epsilon") %in% trimws(found$cells[[1L]])))
  expect_match(found$latex, "Tumour size", fixed = TRUE)
  rows <- gbsg()
  attr(rows$age, "label") <- "Age (years)"
  attr(rows$pgr, "label") <- "Progesterone receptor" # in no model
  expect_match(dp_regression_table(list(Adjusted = adjusted), labels = rows)$text, "Age (years)", fixed = TRUE)
  expect_error(dp_regression_table(list(adjusted), labels = c(agee = "x")), "there is no 'agee'", class = "dp_argument_error")
  skip_if_not_installed("repr")
  expect_match(repr::repr_html(found), "Tumour size", fixed = TRUE)
  file <- withr::local_tempfile(fileext = ".docx")
  dp_write_docx(found, file)
  expect_gt(file.size(file), 1000)
})

test_that("a private column says its epsilon", {
  need_python()
  found <- dp_regression_table(list(private_fit()))
  expect_identical(found$cells[trimws(found$cells[[1L]]) == "Epsilon", 2L], "1")
})
