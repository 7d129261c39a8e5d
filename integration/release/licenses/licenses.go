package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// program is what releases have.
const program = "github.com/lockkeeper/lockkeeper/cmd/lockkeeper"

// targets are the systems whose programs differ in what is linked into them.
var targets = []string{"darwin", "linux"}

// A module is linked into the program.
type module struct {
	path, version string
	dir           string // with its files
}

// linked returns the modules of all targets, by path. Go itself is the first.
func linked() ([]module, error) {
	root, err := goOutput("env", "GOROOT")
	if err != nil {
		return nil, err
	}
	all := []module{{path: "Go", version: runtime.Version(), dir: strings.TrimSpace(root)}}
	for _, target := range targets {
		const format = "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}"
		out, err := goOutput("list", "-deps", "-f", format, program, target)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(out) {
			if path, rest, found := strings.Cut(strings.TrimSpace(line), " "); found {
				version, dir, _ := strings.Cut(rest, " ")
				all = append(all, module{path, version, dir})
			}
		}
	}
	slices.SortFunc(all[1:], func(a, b module) int { return strings.Compare(a.path, b.path) })
	return slices.Compact(all), nil
}

// goOutput runs the go command; of list, the last argument is the system it is about.
func goOutput(args ...string) (string, error) {
	env := append(os.Environ(), "CGO_ENABLED=0")
	if args[0] == "list" {
		env = append(env, "GOOS="+args[len(args)-1])
		args = args[:len(args)-1]
	}
	cmd := exec.Command("go", args...)
	cmd.Env, cmd.Stderr = env, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", cmd, err)
	}
	return string(out), nil
}

var licenceFile = regexp.MustCompile(`(?i)^(LICEN[CS]E|COPYING|NOTICE|PATENTS)([-._].*)?$`)

// write writes the texts, one module after the other.
func write(w io.Writer, all []module) error {
	var problems []error
	if _, err := fmt.Fprintf(w,
		"Lockkeeper is under the Apache License 2.0 (LICENSE). Linked into it are:\n"); err != nil {
		return err
	}
	for _, m := range all {
		text, err := m.licence()
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if _, err := fmt.Fprintf(w, "\n%s\n%s %s\n\n%s", strings.Repeat("=", 80), m.path, m.version, text); err != nil {
			return err
		}
	}
	return errors.Join(problems...)
}

// withoutFile are modules that have no file about their licence, each with what is known.
var withoutFile = map[string]string{
	"github.com/nexus-rpc/nexus-proto-annotations": "This module has no file with a licence. " +
		"Its authors are those of go.temporal.io/api,\n" +
		"which needs it, and is under the MIT License below.\n",
}

// licence returns the texts of all files about it in the module's root.
func (m module) licence() (string, error) {
	if text := withoutFile[m.path]; text != "" {
		return text, nil
	}
	files, err := os.ReadDir(m.dir)
	if err != nil {
		return "", err
	}
	var texts []string
	known := false
	for _, file := range files {
		if !file.Type().IsRegular() || !licenceFile.MatchString(file.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.dir, file.Name()))
		if err != nil {
			return "", err
		}
		known = known || kindOf(string(text)) != ""
		texts = append(texts, strings.TrimRight(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")+"\n")
	}
	switch {
	case len(texts) == 0:
		return "", fmt.Errorf("%s %s has no file LICENSE; find out what may be done with it", m.path, m.version)
	case !known:
		return "",
			fmt.Errorf("%s %s has a licence of a kind that is not known here; read it, and add its kind", m.path, m.version)
	}
	return strings.Join(texts, "\n"), nil
}

// kinds are the licences that allow what a release does with them, by words that they alone have.
var kinds = []struct{ name, words string }{
	{"Apache-2.0", "Apache License Version 2.0, January 2004"},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"BSD", "Redistribution and use in source and binary forms, with or without modification, are permitted"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is " +
		"hereby granted"},
}

// kindOf returns the kind of a licence, "" for one that is not known.
func kindOf(text string) string {
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, "\n> ", "\n")), " ") // some quote it
	for _, kind := range kinds {
		if strings.Contains(text, kind.words) {
			return kind.name
		}
	}
	return ""
}
