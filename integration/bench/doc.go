// Package bench measures the priority lock against its peers, and against the
// limit, on one real ZooKeeper in one run: make bench.
//
// Contestants take turns (A B C A B C …) so that what the machine does besides
// hits all of them; a figure is the median of the turns. What counts are the
// ratios; cycles per second depend on the machine. Units say which are kept for the
// next release (scripts/bench.sh): x_NAME is a ratio of rates to those of NAME, more is
// better; t_NAME one of times, less is better.
package bench
