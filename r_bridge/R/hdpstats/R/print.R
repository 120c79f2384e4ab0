# Objects whose text Python has written.

.print_text <- function(x, ...) {
  cat(x$text, "\n", sep = "")
  invisible(x)
}

print.dp_account <- .print_text

print.dp_aggregate <- .print_text

print.dp_comparison <- .print_text

print.dp_curves_plan <- .print_text

print.dp_description_plan <- .print_text

print.dp_description_request <- .print_text

print.dp_balance_request <- .print_text

print.dp_effect_plan <- .print_text

print.dp_effect_request <- .print_text

print.dp_weights <- .print_text

print.dp_logrank_test <- .print_text

print.dp_plan <- .print_text

print.dp_schema <- .print_text

print.dp_site <- .print_text

print.dp_study <- .print_text

print.summary.dp_combined_effect <- .print_text

print.summary.dp_description <- .print_text

print.summary.dp_treatment_effect <- .print_text

print.summary.dp_weighted_balance <- .print_text

print.summary.dp_weighted_sample <- .print_text
