package prometheus

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// A line is the values of one set of labels, in order of time.
type line struct {
	Labels map[string]string
	Values []float64
}

func (l line) last() float64 { return l.Values[len(l.Values)-1] }

// get asks the server, and puts what it answers into data.
func (s *server) get(ctx context.Context, path string, parameters url.Values, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, strings.NewReader(parameters.Encode()))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if path == "/api/v1/rules" || path == "/api/v1/alerts" {
		request.Method, request.Body = http.MethodGet, nil
	}
	response, err := new(http.Client).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %s: %w", path, response.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s %s: %s", path, parameters.Get("query"), answer.Error)
	}
	return nil
}

// A sample is a time and a value, which is text.
type sample [2]any

func (v sample) value() (float64, error) {
	text, ok := v[1].(string)
	if !ok {
		return 0, fmt.Errorf("%v is no value", v[1])
	}
	return strconv.ParseFloat(text, 64)
}

// over asks for values over time, as a panel of lines does, one each second. The last
// one is that of to.
func (s *server) over(expr string, from, to time.Time) []line {
	s.t.Helper()
	from = to.Add(-to.Sub(from).Truncate(time.Second))
	var answer struct {
		Result []struct {
			Metric map[string]string
			Values []sample
		}
	}
	require.NoError(s.t, s.get(s.t.Context(), "/api/v1/query_range", url.Values{
		"query": {expr}, "start": {moment(from)}, "end": {moment(to)}, "step": {"1"},
	}, &answer))
	var all []line
	for _, r := range answer.Result {
		l := line{Labels: r.Metric}
		for _, v := range r.Values {
			value, err := v.value()
			require.NoError(s.t, err)
			l.Values = append(l.Values, value)
		}
		all = append(all, l)
	}
	return all
}

// at asks for values at one time, as a table and a rule do.
func (s *server) at(ctx context.Context, expr string, at time.Time) ([]line, error) {
	var answer struct {
		Result []struct {
			Metric map[string]string
			Value  sample
		}
	}
	parameters := url.Values{"query": {expr}}
	if !at.IsZero() {
		parameters.Set("time", moment(at))
	}
	if err := s.get(ctx, "/api/v1/query", parameters, &answer); err != nil {
		return nil, err
	}
	var all []line
	for _, r := range answer.Result {
		value, err := r.Value.value()
		if err != nil {
			return nil, err
		}
		all = append(all, line{Labels: r.Metric, Values: []float64{value}})
	}
	return all, nil
}

func moment(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64)
}
