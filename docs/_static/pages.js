/* Names of controls for readers who hear a page, and a search that works from the file system. */
"use strict";
if (location.protocol === "file:" && typeof DOCUMENTATION_OPTIONS !== "undefined") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false; // a browser does not let a page read its neighbours in a folder
}
document.addEventListener("DOMContentLoaded", () => {
  for (const button of document.querySelectorAll(".search-button-field")) {
    button.setAttribute("aria-label", button.textContent.replace(/\s+/g, " ").trim());
  }
  for (const summary of document.querySelectorAll("summary:has(.toctree-toggle)")) {
    const link = summary.closest("li").querySelector("a");
    summary.setAttribute("aria-label", `Pages below ${link ? link.textContent.trim() : "this one"}`);
  }
  // tables that a cell printed scroll by themselves; those that do are reached by the keyboard
  const reach = () => document.querySelectorAll(".cell_output table").forEach((table) => {
    if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
    else table.removeAttribute("tabindex");
  });
  reach();
  window.addEventListener("resize", reach);
});
