"""Hybrid differentially private statistics.

Users write ``import hdpstats.api as hdp`` and ``import hdpstats.formula.api as hdpf``.

* ``_base``: What all packages use.
* ``api``: The public names: ``import hdpstats.api as hdp``.
* ``audit``: Searches for a violation of a guarantee: exact privacy losses, worst neighbours, lower bounds on epsilon,
  skeletons.
* ``cli``: The command line: ``hdpstats ledger open|grant|show|verify|export``, ``hdpstats site
  serve|answer|check|note|key|token|…``, ``hdpstats request``, ``hdpstats result``, ``hdpstats flare job|result``.
* ``custodian``: The custodian's service: private rows in a process of their own, behind HTTPS.
* ``describe``: Descriptions of the private cohort, and survival curves by group: what is asked, what to expect, what
  was found.
* ``display``: How objects show themselves: a report, described once, is written as text, LaTeX, HTML and a notebook's
  page.
* ``engines``: Requests that reach sites by somebody else's machinery, such as NVIDIA FLARE.
* ``exchange``: Requests and releases as files, for a site that nobody reaches over a network.
* ``families``: Families of models, each in a place of its own: rows, bounds with proofs, public side, expected
  outcomes.
* ``formula``: Formula constructors: ``import hdpstats.formula.api as hdpf``.
* ``formulas``: What a model's columns are: a formula and a schema become a design, and no row is read.
* ``inference``: From released and public numbers to estimates with standard errors that count sampling *and* privacy
  noise.
* ``jupyter``: The IPython extension: ``%load_ext hdpstats.jupyter``.
* ``ledger``: What was recorded: a durable account of the privacy spent on a dataset, charged before private rows are
  touched.
* ``losses``: Losses, one class each: value, derivatives, constants with proof, inverse link, and what tables call it.
* ``mechanisms``: What a site computes with private rows: each mechanism states its guarantee and proves it.
* ``models``: Models that users plan and fit: regressions, hazards, distributions, and weights of public rows.
* ``noise``: The only package that draws randomness for a release.
* ``papers``: Seeded simulations: trials with a known truth, and published algorithms reproduced. Nothing here is
  private.
* ``privacy``: Relations, budgets, sensitivities, events and guarantees. No data and no data frame.
* ``public``: What is learned from public rows whatever the model: moments, allowances for weights, what tables of
  them say.
* ``raking``: Public rows re-weighted and re-scaled to a description of the private people: all of it follows from
  releases.
* ``records``: Records that every layer may hold: what queries and releases have in common, models as public numbers,
  estimates.
* ``results``: What a fit gives back: released and public numbers only, with tables, plots and text made from them.
* ``schema``: What is known about a table before any cell is read, and how its cells become numbers.
* ``sites``: Sites: private rows are held inside a `Site`, and only `Site.answer` reads them.
* ``solvers``: Numerical minimisation with a certificate, exact nearest points, orders of points, weights with given
  averages.
"""

__version__ = "0.1.0"
