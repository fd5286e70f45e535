// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
)

// groups is a file of rules, as Prometheus reads it.
type groups struct {
	Groups []group `yaml:"groups"`
}

type group struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

type rule struct {
	Record      string            `yaml:"record,omitempty"`
	Alert       string            `yaml:"alert,omitempty"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations yaml.MapSlice     `yaml:"annotations,omitempty"`
}

var setting = regexp.MustCompile(`%[a-zA-Z]+%`)

// Settle writes values into text where it names settings.
func Settle(text string, value func(name string) string) string {
	return setting.ReplaceAllStringFunc(text, func(m string) string { return value(strings.Trim(m, "%")) })
}

// Defaults are the values of the settings that are not chosen; other, which may be nil, are those that are.
func Defaults(other map[string]string) func(name string) string {
	return func(name string) string {
		if v, ok := other[name]; ok {
			return v
		}
		for _, s := range Settings() {
			if s.Name == name {
				return s.Default
			}
		}
		panic("BUG: %" + name + "% is no setting")
	}
}

// template is the rules with the names of settings in them.
func template() (string, error) {
	records := group{Name: "kube-eventbridge.rules"}
	for _, r := range Records() {
		records.Rules = append(records.Rules, rule{Record: r.Name, Expr: r.Expr})
	}
	alerts := group{Name: "kube-eventbridge.alerts"}
	for _, a := range Alerts() {
		alerts.Rules = append(alerts.Rules, rule{
			Alert: a.Name, Expr: a.Expr, For: a.For, Labels: map[string]string{"severity": a.Severity},
			Annotations: yaml.MapSlice{
				{Key: "summary", Value: a.Summary},
				{Key: "description", Value: a.Description},
				{Key: "runbook_url", Value: "%runbookURL%#" + a.Anchor()},
			},
		})
	}
	text, err := yaml.MarshalWithOptions(groups{[]group{records, alerts}}, yaml.Indent(2), yaml.IndentSequence(true))
	if err != nil {
		return "", fmt.Errorf("write rules: %w", err)
	}
	return string(text), nil
}

// Rules returns the file of rules that Prometheus reads, with the values of the settings.
func Rules(value func(name string) string) (string, error) {
	text, err := template()
	return Settle(text, value), err
}

const resource = `apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: kube-eventbridge
  namespace: kube-eventbridge
spec:
`

// kustomized returns the rules as an object for the Prometheus Operator.
func kustomized() (string, error) {
	text, err := Rules(Defaults(nil))
	return resource + indented(text), err
}

func indented(text string) string {
	return "  " + strings.TrimSuffix(strings.ReplaceAll(text, "\n", "\n  "), "  ")
}

const (
	charted = `{{- if .Values.prometheusRule.enabled }}
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {{- include "metadata" . | nindent 2 }}
    {{- with .Values.prometheusRule.labels }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
`
	chartedEnd = "{{- end }}\n"
)

// templateOf matches what Prometheus, and not Helm, is to fill in.
var templateOf = regexp.MustCompile(`\{\{ \$[^}]*\}\}`)

// chart returns the rules as a template of Helm, whose values are the settings.
func chart() (string, error) {
	text, err := template()
	text = templateOf.ReplaceAllString(text, "{{`$0`}}")
	text = Settle(text, func(name string) string { return "{{ .Values.prometheusRule.settings." + name + " }}" })
	return charted + indented(text) + chartedEnd, err
}
