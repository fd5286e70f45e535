// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Columns of the table.
const (
	colBridge    = "bridge"
	colPublisher = "bare publisher"
	colBaseline  = "baseline"
)

// Metrics of a list. The start of the bare publisher counts in none of them: it has nothing to find out.
const (
	wallClock    = "wall clock, start included"
	cpuWithStart = "CPU per object, start included"
	cpuPerObject = "CPU per object"
)

// row is one line of the table.
type row struct {
	Phase  string `json:"phase"`
	Metric string `json:"metric"`
	Unit   string `json:"unit"`
}

func listPhase(objects int) string { return thousands(objects) + " objects listed and published" }

func listRow(objects int, metric, unit string) row { return row{listPhase(objects), metric, unit} }

func (b *bench) watchPhase() string { return thousands(b.events) + " watch events" }

func (b *bench) watchRow(metric, unit string) row { return row{b.watchPhase(), metric, unit} }

// value is one measured figure.
type value struct {
	row
	Column string  `json:"column"`
	Run    int     `json:"run"`
	Value  float64 `json:"value"`
}

// results are values in the order in which they were measured.
type results struct{ values []value }

func (r *results) add(run int, at row, column string, v float64) {
	r.values = append(r.values, value{at, column, run, v})
}

// rows returns the rows in the order of their first value, those of a phase together.
func (r *results) rows() []row {
	var phases []string
	byPhase := map[string][]row{}
	for _, v := range r.values {
		if !slices.Contains(phases, v.Phase) {
			phases = append(phases, v.Phase)
		}
		if !slices.Contains(byPhase[v.Phase], v.row) {
			byPhase[v.Phase] = append(byPhase[v.Phase], v.row)
		}
	}
	var all []row
	for _, p := range phases {
		all = append(all, byPhase[p]...)
	}
	return all
}

// of returns the values of a cell by run.
func (r *results) of(at row, column string) map[int]float64 {
	found := map[int]float64{}
	for _, v := range r.values {
		if v.row == at && v.Column == column {
			found[v.Run] = v.Value
		}
	}
	return found
}

// median returns the median of a cell, not a number where it is empty.
func (r *results) median(at row, column string) float64 {
	var all []float64
	for _, v := range r.of(at, column) {
		all = append(all, v)
	}
	return median(all)
}

// ratio returns the median over the runs of one column divided by the bare publisher's, not a number without both.
func (r *results) ratio(at row, column string) float64 {
	bare := r.of(at, colPublisher)
	var all []float64
	for run, v := range r.of(at, column) {
		if under, ok := bare[run]; ok {
			all = append(all, v/under)
		}
	}
	return median(all)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// writeMarkdown writes the table.
func (r *results) writeMarkdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| | | bridge | bare publisher | bridge / bare | baseline | baseline / bare " +
		"|\n|---|---|---:|---:|---:|---:|---:|\n")
	phase := ""
	for _, at := range r.rows() {
		shown := at.Phase
		if shown == phase {
			shown = ""
		}
		phase = at.Phase
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", shown, at.Metric,
			cell(r.median(at, colBridge), at.Unit), cell(r.median(at, colPublisher), at.Unit), cell(r.ratio(at, colBridge), ""),
			cell(r.median(at, colBaseline), at.Unit), cell(r.ratio(at, colBaseline), ""))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cell formats a figure with three significant digits; what was not measured is empty.
func cell(v float64, unit string) string {
	if math.IsNaN(v) {
		return ""
	}
	digits := 2
	switch a := math.Abs(v); {
	case a >= 100:
		digits = 0
	case a >= 10:
		digits = 1
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if digits == 0 {
		text = thousands(int(math.Round(v)))
	}
	switch unit {
	case "":
		return text
	case "/s":
		return text + "/s"
	default:
		return text + " " + unit
	}
}

// thousands writes 20000 as 20,000.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// perUnit returns the microseconds of each of n.
func perUnit(d time.Duration, n int) float64 {
	return d.Seconds() * 1e6 / float64(n)
}

// writeJSON writes where it was measured, and every value.
func (r *results) writeJSON(file string, where machine) error {
	text, err := json.MarshalIndent(struct {
		Machine machine `json:"machine"`
		Values  []value `json:"values"`
	}{where, r.values}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the results: %w", err)
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
