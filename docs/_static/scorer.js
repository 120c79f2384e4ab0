/* Pages that tell how to do something come before those that tell why, and measurements and decisions last. */
"use strict";
const WEIGHTS = [
  [/^docs\/(how-to|start)\//, 4], [/^vignettes\/explanation\/formulas/, 4], [/^docs\/(understand|about)\//, 3],
  [/^docs\/reference\/(from_code|r)\//, 2], [/^vignettes\/explanation\//, 1.5],
  [/^vignettes\/decisions\//, 0.2], [/^vignettes\/validation\//, 0.4], [/^benchmarks\//, 0.3], [/^(CHANGELOG|CONTRIBUTING)/, 0.1],
];
var Scorer = {
  score: (result) => {
    const [page, , , , score] = result;
    const found = WEIGHTS.find(([pattern]) => pattern.test(page));
    return score * (found ? found[1] : 1);
  },
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
