// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/browser"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	pipeline "github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/status"
)

// everyday are the resources of a bridge with twenty streams.
const everyday = `[{resource: pods}, {resource: configmaps}, {resource: secrets}, {resource: services}, {resource: serviceaccounts}, {resource: namespaces},
  {resource: nodes}, {resource: persistentvolumes}, {resource: persistentvolumeclaims}, {resource: resourcequotas}, {resource: limitranges},
  {resource: deployments.apps}, {resource: daemonsets.apps}, {resource: statefulsets.apps}, {resource: replicasets.apps}, {resource: jobs.batch},
  {resource: cronjobs.batch}, {resource: ingresses.networking.k8s.io}, {resource: networkpolicies.networking.k8s.io}, {resource: roles.rbac.authorization.k8s.io}]`

const well = "All 20 streams are live"

// report asks /api/status.
func (r *fixture) report() (s status.Report) {
	r.t.Helper()
	_, body := r.status(status.Path)
	_ = json.Unmarshal([]byte(body), &s) // without an answer it is empty
	return s
}

func (r *fixture) awaitSummary(part string) {
	r.t.Helper()
	r.poll("/api/status to say "+part, func() (bool, string) {
		got := r.report()
		return strings.Contains(got.Summary, part), fmt.Sprintf("it says %+v", got)
	})
}

func TestStatus_says_at_once_that_the_broker_is_away_and_that_it_is_back(t *testing.T) {
	t.Parallel()
	r := newRig(t, everyday)
	r.run()
	r.awaitSummary(well)
	_, text := r.status("/")
	code, out, _ := r.command("status", "--config", r.config)
	assert.True(t, code == 0 && strings.HasPrefix(out, well+"\n") && strings.HasPrefix(text, well+"\n") &&
		strings.Count(out, " watching ") == 20, "status ends with %d and says\n%s\n/ says\n%s", code, out, text)

	r.broker.stop()
	stopped := time.Now()
	r.awaitSummary("The broker is away")
	assert.LessOrEqual(t, time.Since(stopped), 30*time.Second, "that the broker is away was said late")
	got := r.report()
	if p := got.Problems[0]; p.Kind != status.BrokerAway || p.Severity != status.Error ||
		!strings.Contains(p.Advice, "Start the broker") || got.State != status.Failing || got.Pipelines[0].Broker.OK {
		t.Errorf("it says %+v", got)
	}
	_, out, _ = r.command("status", "--server", r.server)
	assert.Contains(t, out, "error: brokerAway, pipeline test\n", "status")
	r.configMap("default", "meanwhile", nil)
	r.poll("the unsettled event", func() (bool, string) {
		return slices.ContainsFunc(r.report().Pipelines[0].Streams, func(s status.Stream) bool {
			return s.Name == "configmaps.v1" && s.OldestUnsettledSeconds > 0
		}), "there is none"
	})

	r.broker.start()
	r.awaitSummary(well)
	r.poll("the events", func() (bool, string) {
		p := r.report().Pipelines[0]
		return p.OldestUnsettledSeconds == 0 && p.PublishedTotal > 0 && p.EventsPerSecond > 0, fmt.Sprintf("it says %+v", p)
	})
	r.awaitStatus(http.StatusOK, "ok")
	code, _, _ = r.command("status", "--server", r.server, "-o", "json")
	assert.Equal(t, 0, code, "at the end status ends")
	r.bridge.stop()
	if code, _, stderr := r.command("status", "--server", r.server); code != 1 ||
		!strings.Contains(stderr, "does a bridge run") {
		t.Errorf("without a bridge status ends with %d and says %s", code, stderr)
	}
}

func TestStatusPage_keeps_itself_up_to_date_for_everybody(t *testing.T) {
	rig.Parallel(t, rig.All)
	b := browser.New(t)
	r := newRig(t, everyday)
	shortenPath(r)
	r.run()
	r.awaitSummary(well)
	for i := range 40 {
		r.configMap("default", fmt.Sprintf("settings-%d", i), nil)
	}
	b.Scheme("light")
	b.Do(chromedp.EmulateViewport(1200, 860), chromedp.Navigate("http://"+r.server+"/"))
	b.Until("the verdict", func() bool { return strings.Contains(b.Text(), well) })
	born := browser.Eval[float64](b, "window.born = performance.timeOrigin")
	for _, want := range []string{"test", "configmaps.v1", "stream KUBERNETES", "broker", "checkpoint", "Filter streams"} {
		assert.Contains(t, b.Text(), want, "the page lacks")
	}
	b.LooksWell("light")
	b.Shot("status-light")
	b.Scheme("dark")
	b.LooksWell("dark")
	b.Shot("status-dark")
	b.Do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile))
	b.LooksWell("dark on a phone")
	b.Scheme("light")
	b.LooksWell("light on a phone")
	b.Shot("status-phone")
	b.Do(chromedp.EmulateViewport(1200, 860))

	r.broker.stop()
	b.Until("the problem", func() bool {
		return strings.Contains(b.Text(), "The broker is away: 20 of 20 streams watched") &&
			strings.Contains(b.Text(), "Start the broker")
	})
	b.LooksWell("with a problem")
	b.Shot("status-broker-away")
	b.Scheme("dark")
	b.LooksWell("dark with a problem")
	b.Scheme("light")
	r.broker.start()
	b.Until("the end of the problem", func() bool {
		return strings.Contains(b.Text(), well) && !strings.Contains(b.Text(), "Start the broker")
	})
	now := browser.Eval[float64](b, "window.born || 0")
	assert.True(t, now == born, "the page was loaded again")
	sortsAndFilters(t, b)
	complaints, hosts := b.Heard()
	assert.True(t, len(complaints) <= 0 && len(hosts) == 1 && hosts[0] == r.server,
		"the browser complains of %q, and was at %q", complaints, hosts)

	r.bridge.stop()
	b.Until("the loss", func() bool {
		return strings.Contains(b.Text(), "Connection to the bridge lost") && strings.Contains(b.Text(), "Last seen")
	})
	b.LooksWell("without a bridge")
	r.run()
	b.Until("the bridge", func() bool {
		return strings.Contains(b.Text(), well) &&
			!strings.Contains(b.Text(), "Last seen")
	})
}

// shortenPath has the configuration in a file whose path is as short as an operator's.
func shortenPath(r *fixture) {
	r.t.Helper()
	text := must.Get(os.ReadFile(r.config))(r.t)
	dir := must.Get(os.MkdirTemp("", "bridge"))(r.t)
	r.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r.config = filepath.Join(dir, "bridge.yaml")
	require.NoError(r.t, os.WriteFile(r.config, text, 0o600))
}

// sortsAndFilters leaves the page as it was, but for the order.
func sortsAndFilters(t *testing.T, b *browser.Browser) {
	t.Helper()
	const names = `[...document.querySelectorAll("tbody tr:not([hidden]) th span:first-child")].map((n) => ` +
		`n.textContent).join(" ")`
	b.Do(chromedp.SendKeys("#filter-text", "apps"))
	b.Until("the filtered streams", func() bool {
		return browser.Eval[string](b, names) == "daemonsets.v1.apps deployments.v1.apps replicasets.v1.apps statefulsets.v1.apps"
	})
	b.Do(chromedp.Focus(`th[data-key=name] button`), chromedp.KeyEvent("\r"), chromedp.KeyEvent("\r"))
	b.Until("the sorted streams", func() bool {
		return browser.Eval[string](b, names) == "statefulsets.v1.apps replicasets.v1.apps deployments.v1.apps daemonsets.v1.apps"
	})
	assert.Equal(t, "descending",
		browser.Eval[string](b, `document.querySelector("th[data-key=name]").getAttribute("aria-sort")`), "aria-sort")
	browser.Eval[bool](b,
		`{ const f = document.getElementById("filter-text"); f.value = ""; f.dispatchEvent(new Event("input")) }`)
	n := browser.Eval[int](b, `document.querySelectorAll("tbody tr:not([hidden])").length`)
	assert.Equal(t, 20, n, "without a filter there are %d rows", n)
}

// What a cluster's names and errors bring is text on the page, whatever it looks like.
func TestStatusPage_shows_names_and_errors_as_text(t *testing.T) {
	rig.Parallel(t, rig.All)
	const evil = `<img src=x onerror="window.hit=1"><script>window.hit=1</script>`
	page := status.Handler(status.Config{
		Process: func() status.Process { return status.Process{} }, Pipelines: func() []*pipeline.Pipeline { return nil },
		Idle: func() (string, bool) { return "", true },
	})
	now := time.Now()
	failure := &status.PastError{At: now, Text: evil, Advice: evil}
	report := status.Report{
		State: status.Failing, Summary: evil, Version: evil, Cluster: evil, APIServer: "javascript:window.hit=1", Time: now,
		Started: now,
		Problems: []status.Problem{{
			Severity: status.Error, Pipeline: evil, Streams: []string{evil}, Text: evil,
			Advice: evil,
		}},
		Pipelines: []status.Pipeline{{
			Name: evil, Sink: evil, State: status.Failing, Broker: status.Broker{Error: evil},
			Streams: []status.Stream{{
				Name: evil, State: status.StreamWaiting, Position: evil, LabelSelector: evil, LastError: failure,
				LastGap:       &status.Gap{At: now, From: evil, Reason: evil},
				LastRejection: &status.Rejection{At: now, Object: evil, Text: evil},
			}},
		}},
		Replicas: []status.Replica{{
			Name: evil, Cluster: evil, Pipeline: evil, Into: evil, State: status.ReplicaHeld, Reason: evil,
			Writes: []status.Writes{{Result: evil}}, Parked: []status.Parked{{Reason: evil, First: []string{evil}}},
		}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, asked *http.Request) {
		if asked.URL.Path == status.Path {
			_ = json.NewEncoder(w).Encode(report) // the browser may hang up
			return
		}
		page.ServeHTTP(w, asked)
	}))
	defer server.Close()
	b := browser.New(t)
	b.Do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile), chromedp.Navigate(server.URL))
	b.Until("the text", func() bool { return strings.Count(b.Text(), "<img src=x") >= 18 })
	b.LooksWell("on a phone")
	complaints, _ := b.Heard()
	if n := browser.Eval[int](b, `document.querySelectorAll("img, script:not(:last-of-type)").length`); n > 0 ||
		browser.Eval[bool](b, "!!window.hit") || len(complaints) > 0 {
		t.Errorf("what came was run: %d elements, %q", n, complaints)
	}
}
