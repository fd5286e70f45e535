// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/internal/metric"
)

const referenceHead = `# Metrics

What ` + "`/metrics`" + ` on ` + "`server.listen`" + ` tells, besides Go's and the process's own (` + "`go_…`, `process_…`" + `). This page is made of the code, by ` + "`make monitoring`" + `.
Rules: [deploy/monitoring/rules.yaml](../deploy/monitoring/rules.yaml), a dashboard:
[deploy/monitoring/dashboard.json](../deploy/monitoring/dashboard.json), what to do: [operations.md](operations.md).

- Counters are 0 before they count, so that ` + "`increase()`" + ` sees the first; if one begins later, its description says so. They start at 0 again with the process, and with a pipeline that a changed file restarts. A stream that is not read any more has none.
- A ` + "`stream`" + ` is a resource with its version, and its namespace and selectors where it has any. No label has the name of an object, or anything that an object says.
- *Optional* metrics are there only where what they are about is configured.
`

// reference returns the page about the metrics.
func reference() string {
	var out strings.Builder
	out.WriteString(referenceHead)
	for _, of := range []struct {
		title string
		is    func(*metric.Metric) bool
	}{
		{"Of each stream", func(m *metric.Metric) bool { return !m.Foreign && slices.Contains(m.Labels, "stream") }},
		{"Of each pipeline", func(m *metric.Metric) bool {
			return slices.Contains(m.Labels, "pipeline") && !slices.Contains(m.Labels, "stream")
		}},
		{"Of the process", func(m *metric.Metric) bool { return !m.Foreign && !slices.Contains(m.Labels, "pipeline") }},
		{"Of client-go", func(m *metric.Metric) bool { return m.Foreign }},
	} {
		fmt.Fprintf(&out, "\n## %s\n\n| metric | type | meaning | what to look for |\n|---|---|---|---|\n", of.title)
		for _, m := range metric.All() {
			if of.is(&m) {
				out.WriteString(referenceRow(&m))
			}
		}
	}
	return out.String()
}

func referenceRow(m *metric.Metric) string {
	name, kind := m.FullName(), string(m.Type)
	if len(m.Labels) > 0 {
		name += "{" + strings.Join(m.Labels, ",") + "}"
	}
	if m.Optional {
		kind += ", optional"
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, kind, m.Help, m.Look)
}
