// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// Series are samples, one each step at most.
type Series struct{ all map[string]*series }

type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

// Add adds a sample at a step, which is not before the last one of the same series.
func (s *Series) Add(l labels.Labels, step int, v float64) {
	if s.all == nil {
		s.all = map[string]*series{}
	}
	key := l.String()
	if s.all[key] == nil {
		s.all[key] = &series{labels: l}
	}
	s.all[key].samples = append(s.all[key].samples, sample{at(step).UnixMilli(), v})
}

// Load adds series in promtool's notation, a value each step; it returns how many steps the longest has.
func (s *Series) Load(line string) (steps int, err error) {
	l, values, err := language().ParseSeriesDesc(line)
	if err != nil {
		return 0, fmt.Errorf("read %q: %w", line, err)
	}
	for step, v := range values {
		if !v.Omitted {
			s.Add(l, step, v.Value)
		}
	}
	return len(values), nil
}

func (s *Series) record(name string, v promql.Vector, step int) {
	for _, one := range v {
		s.Add(labels.NewBuilder(one.Metric).Set(model.MetricNameLabel, name).Labels(), step, one.F)
	}
}

// Querier implements storage.Queryable.
func (s *Series) Querier(from, to int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints,
		matchers ...*labels.Matcher,
	) storage.SeriesSet {
		var found []storage.Series
		for _, key := range slices.Sorted(maps.Keys(s.all)) {
			one := s.all[key]
			if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(one.labels.Get(m.Name)) }) {
				continue
			}
			first, _ := slices.BinarySearchFunc(one.samples, from, func(c chunks.Sample, t int64) int { return int(c.T() - t) })
			last, _ := slices.BinarySearchFunc(one.samples, to+1, func(c chunks.Sample, t int64) int { return int(c.T() - t) })
			if first < last {
				found = append(found, storage.NewListSeries(one.labels, one.samples[first:last]))
			}
		}
		return &set{series: found}
	}}, nil
}

// set is what was found.
type set struct {
	series []storage.Series
	next   int
}

// Next implements storage.SeriesSet, as the others do.
func (s *set) Next() bool                        { s.next++; return s.next <= len(s.series) }
func (s *set) At() storage.Series                { return s.series[s.next-1] }
func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return nil }

// sample is a value at a time in milliseconds.
type sample struct {
	t int64
	v float64
}

// T implements chunks.Sample, as the others do.
func (s sample) T() int64                      { return s.t }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.v }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
