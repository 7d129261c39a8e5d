package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/observability/health"
)

const healthPatience = 4 * time.Second // less than what orchestrators and Docker wait by default or by custom

func (p *program) healthcheck() *cobra.Command {
	var file, address string
	var ready yes
	timeout := duration{positive: "4s"}
	c := p.command(&cobra.Command{
		Use:   "healthcheck",
		Short: "Ask a daemon whether it lives, or is ready",
		Long: `Ask the daemon that the configuration file is about whether it lives: its
/healthz at metrics.listen, on this machine. With --ready its /readyz: whether it
can run jobs, or why not. It is for containers whose image has nothing else to ask with.

Of the file only the section metrics is read. A daemon whose file has become wrong
goes on with what it had, and so does this.

A daemon whose ZooKeeper does not answer lives, and is not ready.

Exit code 0 if the answer is yes, 1 if it is no or there is none, and 78 for wrong
flags or a file without metrics.listen.`,
		Example: `  lockkeeper healthcheck -f /etc/lockkeeper/lockkeeper.yaml
  lockkeeper healthcheck --ready
  lockkeeper healthcheck --ready --url http://10.0.0.7:9464`,
	}, nil, func(c *cobra.Command, _ []string) error {
		base := healthURL(address)
		if c.Flags().Changed("url") && base == nil {
			p.problems.add(
				fmt.Sprintf("--url: %q is not the address of a daemon; write it like http://127.0.0.1:9464", address))
		}
		if c.Flags().Changed("url") && c.Flags().Changed("file") {
			p.problems.add("--url and --file: both say where the daemon is; give one")
		}
		if err := p.usage(c); err != nil {
			return err
		}
		if base == nil {
			m, err := config.LoadMetrics(file, config.Options{})
			if err != nil {
				return err
			}
			if base = loopback(m.Listen); base == nil {
				return &codeError{code: exitConfig, text: file + ": metrics.listen is missing or has no port of its own, " +
					"so there is nothing to ask; write metrics: {listen: \"127.0.0.1:9464\"}, or give --url"}
			}
		}
		ctx, cancel := context.WithTimeout(c.Context(), timeout.or(healthPatience))
		defer cancel()
		said, err := askHealth(ctx, base, ready.is)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(p.stdout, said)
		return err
	})
	c.Flags().StringVarP(&file, "file", "f", defaultFile, "configuration `file`")
	c.Flags().VarPF(&ready, "ready", "", "ask whether it can run jobs, not only whether it lives").NoOptDefVal = "true"
	c.Flags().Var(&timeout, "timeout", "how long to wait for the answer (default 4s)")
	c.Flags().StringVar(&address, "url", "", "where the daemon is, in place of a file: the `URL` without a path")
	return c
}

// healthURL is nil for what is not the address of a server.
func healthURL(address string) *url.URL {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" ||
		u.RawQuery != "" {
		return nil
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}
}

// loopback is where a daemon of this machine that listens at an address is found; nil if
// that cannot be known.
func loopback(listen string) *url.URL {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "0" {
		return nil
	}
	if ip, _ := netip.ParseAddr(host); host == "" || ip.IsUnspecified() {
		host = "127.0.0.1" // a listener of Go at [::] takes it, too, and IPv6 may be off
	}
	return &url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}
}

// askHealth returns what the daemon says for yes.
func askHealth(ctx context.Context, base *url.URL, ready bool) (string, error) {
	where := base.JoinPath("/healthz")
	if ready {
		where = base.JoinPath("/readyz")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where.String(), http.NoBody)
	if err != nil {
		return "", err
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true}, // and no proxy: it is on this machine
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return "", fmt.Errorf("%s: no answer in time", where)
		}
		if of, ok := errors.AsType[*url.Error](err); ok {
			err = of.Err
		}
		return "", fmt.Errorf("%s: no answer: %w", where, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return "", fmt.Errorf("%s: the answer is cut off: %w", where, err)
	}
	if ready {
		return readinessLine(where, response, body)
	}
	var v healthView
	if err := json.Unmarshal(body, &v); err != nil || response.StatusCode != http.StatusOK || v.Status == "" {
		return "", notADaemon(where, response)
	}
	line := fmt.Sprintf("alive: %s, ZooKeeper %s", v.Status, v.ZooKeeper)
	if v.Error != "" {
		line += ": " + v.Error
	}
	return printable(line), nil
}

func readinessLine(where *url.URL, response *http.Response, body []byte) (string, error) {
	var v health.Readiness
	known := response.StatusCode == http.StatusOK || response.StatusCode == http.StatusServiceUnavailable
	if err := json.Unmarshal(body, &v); err != nil || !known || v.Ready != (response.StatusCode == http.StatusOK) {
		return "", notADaemon(where, response)
	}
	all := v.Reasons
	if v.Ready {
		all = v.Warnings
	}
	var why []string
	for _, r := range all {
		why = append(why, r.Check+": "+r.Reason)
	}
	text := strings.Join(why, "; ")
	if !v.Ready {
		return "", fmt.Errorf("%s: not ready: %s", where, cmp.Or(text, "it does not say why"))
	}
	if text != "" {
		return printable("ready, but " + text), nil
	}
	return "ready", nil
}

func notADaemon(where *url.URL, response *http.Response) error {
	return fmt.Errorf("%s: the answer, with status %d, is not that of a daemon", where, response.StatusCode)
}
