// Command image builds the container image from the Dockerfile, and needs neither a container
// runtime nor a registry. `make image` runs it.
package main
