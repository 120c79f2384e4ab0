/* Pages that tell how to do something come before those that tell why, and measurements and decisions last. A title that
   has more of the words that were asked for comes before one that has fewer. */
"use strict";
const WEIGHTS = [
  [/^docs\/(how-to|start)\//, 4], [/^vignettes\/explanation\/formulas/, 4], [/^docs\/(understand|about)\//, 3],
  [/^docs\/reference\/(from_code|r)\//, 2], [/^vignettes\/explanation\//, 1.5],
  [/^vignettes\/decisions\//, 0.2], [/^vignettes\/validation\//, 0.4], [/^benchmarks\//, 0.3], [/^(CHANGELOG|CONTRIBUTING)/, 0.1],
];
const ASKED = (new URLSearchParams(window.location.search).get("q") ?? "").toLowerCase().match(/[a-z0-9_]{3,}/g) ?? [];
/* The share of the words in a title; an ending such as that of a plural does not count. */
const share = (title) => {
  const words = title.toLowerCase();
  const there = ASKED.filter((word) => words.includes(word.length > 5 ? word.slice(0, -2) : word));
  return ASKED.length ? there.length / ASKED.length : 0;
};
var Scorer = {
  score: (result) => {
    const [page, title, , , score] = result;
    const found = WEIGHTS.find(([pattern]) => pattern.test(page));
    return score * (found ? found[1] : 1) * (1 + share(title));
  },
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
