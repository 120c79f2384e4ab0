#!/bin/sh
# Make .bench-venv, the environment of other software: glum, faiss, and diffprivlib,
# which does not work with the project's scikit-learn.
#
#   sh benchmarks/make_environment.sh [PYTHON]      (default: python3; made with Python 3.11)
set -eu
cd "$(dirname "$0")/.."
"${1:-python3}" -m venv --clear .bench-venv
.bench-venv/bin/python -m pip install --quiet --disable-pip-version-check \
    diffprivlib==0.6.6 scikit-learn==1.6.1 numpy==2.4.6 scipy==1.17.1 glum==3.4.1 pandas==3.0.0 faiss-cpu==1.15.1
.bench-venv/bin/python -c "from diffprivlib.models import LogisticRegression"
.bench-venv/bin/python -m pip freeze --disable-pip-version-check
