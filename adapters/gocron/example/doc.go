// Command example is a program that has its schedules in gocron, and runs on
// several machines: each job under its lock, on one of them at a time.
package main
