"""Makes one page of results.json, which the driver `seriatim-perf suite` writes.
`scripts/report.sh` runs it."""
