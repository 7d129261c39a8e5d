//go:build !linux

package zkserver

import "errors"

var errLinuxOnly = errors.New("a disk can be filled on Linux only")

func mountData(string) error     { return errLinuxOnly }
func unmountData(string) error   { return errLinuxOnly }
func shrink(string) error        { return errLinuxOnly }
func grow(string) error          { return errLinuxOnly }
func limitFiles(int, bool) error { return errLinuxOnly }
