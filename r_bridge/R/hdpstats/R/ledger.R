# The ledger: what was spent on a data set.

dp_ledger_open <- function(path = NULL, dataset = NULL, epsilon = NULL, delta = 0, version = 1,
                           relation = c("replace_one", "add_or_remove_one"), unit = NULL, gaussian = NULL,
                           create = NULL) {
  place <- .path(path)
  if (is.null(epsilon)) return(.py("ledger_open", list(path = place, dataset = dataset, version = version)))
  .py("ledger", list(
    path = place, dataset = dataset, epsilon = epsilon, delta = delta, version = version,
    relation = .first(relation, c("replace_one", "add_or_remove_one")), unit = unit, gaussian = gaussian, create = create
  ))
}

dp_ledger <- function(x) {
  found <- .py("ledger_show", list(ledger = x))
  if (is.null(found$sites)) return(structure(found, class = "dp_account"))
  structure(lapply(found$sites, structure, class = "dp_account"), class = "dp_accounts")
}

dp_ledger_verify <- function(x, head = NULL, key = NULL) {
  .py("ledger_verify", list(ledger = x, head = head, key = if (is.null(key)) NULL else .path(key)))
}

dp_ledger_export <- function(x, path) {
  .py("ledger_export", list(ledger = x, path = .path(path)))
  invisible(x)
}

print.dp_ledger <- function(x, ...) {
  print(dp_ledger(x))
  invisible(x)
}

print.dp_accounts <- function(x, ...) {
  for (site in names(x)) cat(site, "\n", x[[site]]$text, "\n\n", sep = "")
  invisible(x)
}

as.data.frame.dp_accounts <- function(x, row.names = NULL, optional = FALSE, ...) {
  charged <- Filter(function(site) nrow(x[[site]]$history) > 0L, names(x))
  tables <- lapply(charged, function(site) cbind(site = site, x[[site]]$history))
  if (length(tables)) do.call(rbind, tables) else cbind(site = character(), x[[1L]]$history)
}

as.data.frame.dp_account <- function(x, row.names = NULL, optional = FALSE, ...) x$history
