// SPDX-License-Identifier: Apache-2.0

// Package rules tries the rules for Prometheus with Prometheus' own parsers, engine and templates; what promtool adds
// to them, the time that an alert waits, is here.
package rules

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/template"
)

// Step is what is between scrapes, and between evaluations.
const Step = 30 * time.Second

// Alert is one that fires.
type Alert struct {
	Name, Summary string
	Labels        map[string]string
}

// Rules are those of a file.
type Rules struct {
	engine *promql.Engine
	groups []rulefmt.RuleGroup
}

// Parse reads a file of rules.
func Parse(text string) (*Rules, error) {
	parsed, problems := rulefmt.Parse([]byte(text), false, model.UTF8Validation, language(), slog.New(slog.DiscardHandler))
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: language()})
	return &Rules{engine: engine, groups: parsed.Groups}, nil
}

func language() parser.Parser { return parser.NewParser(parser.Options{}) }

// at is the time of a step.
func at(step int) time.Time { return time.Unix(0, 0).UTC().Add(time.Duration(step) * Step) }

// Firing returns what fires at each step, from the first on. What is recorded is added to the series. Groups are
// evaluated in their order.
func (r *Rules) Firing(ctx context.Context, s *Series, steps int) ([][]Alert, error) {
	fired := make([][]Alert, steps)
	since := map[string]time.Time{}
	for step := range steps {
		for _, g := range r.groups {
			for _, rule := range g.Rules {
				result, err := r.query(ctx, s, rule.Expr, at(step))
				if err != nil {
					return nil, fmt.Errorf("evaluate %s: %w", rule.Record+rule.Alert, err)
				}
				if rule.Record != "" {
					s.record(rule.Record, result, step)
					continue
				}
				alerts, err := r.alerts(ctx, s, &rule, result, at(step), since)
				if err != nil {
					return nil, err
				}
				fired[step] = append(fired[step], alerts...)
			}
		}
	}
	return fired, nil
}

// alerts returns those that have held for as long as the rule says; since is when each began to hold.
func (r *Rules) alerts(
	ctx context.Context, s *Series, rule *rulefmt.Rule, result promql.Vector, now time.Time, since map[string]time.Time,
) (fired []Alert, err error) {
	holds := map[string]bool{}
	for _, sample := range result {
		key := rule.Alert + sample.Metric.String()
		holds[key] = true
		if _, ok := since[key]; !ok {
			since[key] = now
		}
		if now.Sub(since[key]) < time.Duration(rule.For) {
			continue
		}
		ask := func(ctx context.Context, expr string, t time.Time) (promql.Vector, error) {
			return r.query(ctx, s, expr, t)
		}
		data := template.AlertTemplateData(sample.Metric.Map(), nil, "", sample)
		text := "{{$labels := .Labels}}{{$value := .Value}}" + rule.Annotations["summary"]
		summary, err := template.NewTemplateExpander(ctx, text, rule.Alert, data, model.TimeFromUnixNano(now.UnixNano()),
			template.QueryFunc(ask), nil, []string{"missingkey=error"}).Expand()
		if err != nil {
			return nil, fmt.Errorf("summary of %s: %w", rule.Alert, err)
		}
		fired = append(fired, Alert{rule.Alert, summary, sample.Metric.Map()})
	}
	maps.DeleteFunc(since, func(key string, _ time.Time) bool {
		return strings.HasPrefix(key, rule.Alert+"{") && !holds[key]
	})
	return fired, nil
}

func (r *Rules) query(ctx context.Context, s *Series, expr string, now time.Time) (promql.Vector, error) {
	q, err := r.engine.NewInstantQuery(ctx, s, nil, expr, now)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	result := q.Exec(ctx)
	if result.Err != nil {
		return nil, result.Err
	}
	v, err := result.Vector()
	return slices.Clone(v), err
}

// Metrics returns the names of metrics that an expression asks for, or an error where it is none.
func Metrics(expr string) ([]string, error) {
	tree, err := language().ParseExpr(expr)
	if err != nil {
		return nil, err
	}
	var names []string
	parser.Inspect(tree, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			names = append(names, v.Name)
		}
		return nil
	})
	return names, nil
}
