// SPDX-License-Identifier: Apache-2.0

package replicate

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/browser"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/status"
)

func TestStatusPage_resumes_a_replica_after_it_has_asked(t *testing.T) {
	rig.Tier(t, rig.All)
	b := browser.New(t)
	c := newClusters(t, "[{resource: configmaps}]")
	c.both("shop")
	create(t, c.from, "shop", "a=1", "b=1", "c=1", "d=1")
	path, server := c.replicaFile("deletes: {limit: 1, minAge: 0s}")
	c.startReplica(path, server)
	awaitValues(t, c.to, "shop", "a=1 b=1 c=1 d=1")
	b.Scheme("light")
	b.Do(chromedp.EmulateViewport(1200, 860), chromedp.Navigate("http://"+server+"/"))
	b.Until("a replica that runs", func() bool {
		return strings.Contains(b.Text(), "The replica runs") && strings.Contains(b.Text(), "✓ running") &&
			strings.Contains(b.Text(), "east, pipeline audit → west")
	})
	b.LooksWell("light")
	assert.False(t, offered(b), "there is nothing to resume")

	create(t, c.to, "shop", "taken=theirs")
	create(t, c.from, "shop", "taken=1")
	remove(t, c.from, "shop", "a", "b", "c")
	b.Until("a replica that is held", func() bool {
		return strings.Contains(b.Text(), "✗ held") && strings.Contains(b.Text(), "A replica is held") &&
			strings.Contains(b.Text(), "exists: configmaps shop/taken") && strings.Contains(b.Text(), "held: configmaps shop/")
	})
	b.LooksWell("held")
	b.Scheme("dark")
	b.Do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile))
	b.LooksWell("dark, held, on a phone")
	b.Do(chromedp.EmulateViewport(1200, 860))
	held := values(t, c.to, "shop")
	assert.Equal(t, http.StatusForbidden, c.post(server, "/replicas/resume", "cross-site"), "a page of another site")
	press := func(selector string) { b.Do(chromedp.Focus(selector), chromedp.KeyEvent("\r")) }
	press("td .choice")
	b.Until("the question", func() bool {
		return strings.Contains(b.Text(), "Resume shop?") && strings.Contains(b.Text(), "Objects that are deleted from west: ")
	})
	b.LooksWell("dark, asking")
	press("#no")
	b.Until("the end of the question", func() bool { return !strings.Contains(b.Text(), "Resume shop?") })
	assert.Equal(t, held, values(t, c.to, "shop"))
	assert.Equal(t, status.ReplicaHeld, c.report(server).Replicas[0].State)
	press("td .choice")
	press("#yes")
	awaitValues(t, c.to, "shop", "d=1 taken=theirs")
	b.Until("a replica that runs again", func() bool {
		return strings.Contains(b.Text(), "✓ running") && !offered(b)
	})
	complaints, hosts := b.Heard()
	assert.Empty(t, complaints)
	assert.Equal(t, []string{server}, hosts)
}

// offered reports whether the page offers to resume.
func offered(b *browser.Browser) bool {
	return browser.Eval[bool](b, `document.querySelector("td .choice").checkVisibility()`)
}

// post asks as a browser does for a page of a site.
func (c *clusters) post(server, path, site string) int {
	c.t.Helper()
	r := must.Get(http.NewRequestWithContext(c.t.Context(), http.MethodPost, "http://"+server+path, nil))(c.t)
	r.Close = true
	r.Header.Set("Sec-Fetch-Site", site)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(c.t, err)
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

// report asks a process how it is doing.
func (c *clusters) report(server string) (r status.Report) {
	c.t.Helper()
	client := must.Get(status.NewClient(server))(c.t)
	defer client.Close()
	return must.Get(client.Report(c.t.Context()))(c.t)
}
