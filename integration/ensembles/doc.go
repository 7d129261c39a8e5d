// Package ensembles tests locks that are spread over two ensembles by prefix. It runs
// on the backend that LOCKKEEPER_TEST_ZK names, see testbed.
package ensembles
