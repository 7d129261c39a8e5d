// Package znodetest has what tests of records and names have in common.
package znodetest
