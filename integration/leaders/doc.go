// Package leaders shows that locks outlive the election of a new leader: on an
// ensemble of three real servers whose clocks do not agree, and whose leader is
// killed.
package leaders
