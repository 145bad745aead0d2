#!/usr/bin/env bash
# Put the 404 page of "latest" at the root of the published branch, where GitHub Pages looks for it.
#
#   scripts/publish_404.sh [branch]      default gh-pages; run it after mike deploy, then push the branch
#
# Only the branch changes, by one commit; the working tree and its index are not touched.
set -euo pipefail
branch="${1:-gh-pages}"
blob=$(git rev-parse --verify --quiet "$branch:latest/404.html") || {
  echo "There is no latest/404.html on the branch $branch; deploy a version with the alias latest first." >&2
  exit 1
}
if [ "$(git rev-parse --verify --quiet "$branch:404.html" || true)" = "$blob" ]; then
  exit 0
fi
GIT_INDEX_FILE=$(mktemp -u)
export GIT_INDEX_FILE
trap 'rm -f "$GIT_INDEX_FILE"' EXIT
git read-tree "$branch"
git update-index --add --cacheinfo "100644,$blob,404.html"
commit=$(git commit-tree "$(git write-tree)" -p "$branch" -m "Show the 404 page of the latest version")
git update-ref "refs/heads/$branch" "$commit"
