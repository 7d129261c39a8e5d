# Of the output of benchmarks, in Go's format, what benchstat should compare: x_… are ratios of rates, t_… ratios of times.
/^(goos|goarch|pkg|cpu):/ { line[++n] = $0 }
/^Benchmark/ {
  kept = ""
  for (i = 3; i < NF; i += 2) {
    unit = $(i + 1)
    if (unit !~ /^[xt]_/) continue
    kept = kept " " $i " " unit
    better[unit] = unit ~ /^x_/ ? "higher" : "lower"
    if (!(unit in known)) { known[unit] = 1; units[++m] = unit }
  }
  if (kept != "") line[++n] = $1 " " $2 kept
}
END {
  for (i = 1; i <= m; i++) print "Unit " units[i] " better=" better[units[i]]
  for (i = 1; i <= n; i++) print line[i]
}
