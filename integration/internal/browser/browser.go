// SPDX-License-Identifier: Apache-2.0

// Package browser looks at a page as a person does, in a headless Chromium.
package browser

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

// Browser is a tab of headless Chromium that keeps what it complains of and where it goes.
type Browser struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string
	hosts      []string
}

// New opens a tab. It skips the test where there is no Chromium, and fails it where CI is set.
func New(t *testing.T) *Browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		testtier.Missing(t, "Chromium, to look at the page: apt-get install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocated, free := chromedp.NewExecAllocator(t.Context(), options...)
	ctx, end := chromedp.NewContext(allocated)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // it waits for the process, which may have gone
		end()
		free()
	})
	b := &Browser{t: t, ctx: ctx}
	require.NoError(t, chromedp.Listen(ctx, b.heard))
	b.Do(call(runtime.Enable, cdp.Empty{}), call(log.Enable, cdp.Empty{}), call(network.Enable, network.EnableParams{}))
	return b
}

// heard takes note of one of the browser's events.
func (b *Browser) heard(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		b.complaints = append(b.complaints, "console."+string(e.Type))
	case *log.EventEntryAdded:
		b.complaints = append(b.complaints, string(e.Entry.Source)+": "+e.Entry.Text)
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err == nil && u.Scheme != "data" && !slices.Contains(b.hosts, u.Host) {
			b.hosts = append(b.hosts, u.Host)
		}
	}
}

// Heard returns what the browser complains of, and the hosts that it was at.
func (b *Browser) Heard() (complaints, hosts []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.complaints), slices.Clone(b.hosts)
}

// call is an action that is one command of the browser's protocol.
func call[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// Do carries actions out.
func (b *Browser) Do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, actions...))
}

// Eval returns what an expression of JavaScript is.
func Eval[T any](b *Browser, expression string) T {
	b.t.Helper()
	return must.Get(chromedp.Run(b.ctx, chromedp.Evaluate[T](expression)))(b.t)
}

// Text is what a person reads on the page.
func (b *Browser) Text() string { return Eval[string](b, "document.body.innerText") }

// Scheme has the page shown as to a person who prefers light or dark.
func (b *Browser) Scheme(name string) {
	b.t.Helper()
	b.Do(call(emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}}))
}

// Shot writes a picture of what is seen to the directory of -screenshots, if that is given.
func (b *Browser) Shot(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	picture := must.Get(chromedp.Run(b.ctx, chromedp.CaptureScreenshot()))(b.t)
	saveShot(b.t, name, picture)
}

// Until polls what the page says.
func (b *Browser) Until(what string, ok func() bool) {
	b.t.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			complaints, _ := b.Heard()
			b.t.Fatalf("waited in vain for %s; the page says\n%s\n%q", what, b.Text(), complaints)
		}
	}
}

var screenshots = flag.String("screenshots", "", "the directory that pictures of the status page are written to")

// saveShot writes a picture with at most 256 colours, which is enough for text on a ground and a third of the bytes.
func saveShot(t *testing.T, name string, picture []byte) {
	t.Helper()
	full := must.Get(png.Decode(bytes.NewReader(picture)))(t)
	small := image.NewPaletted(full.Bounds(), paletteOf(full))
	draw.Draw(small, small.Bounds(), full, full.Bounds().Min, draw.Src)
	var out bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small))
	require.NoError(t, os.MkdirAll(*screenshots, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(*screenshots, name+".png"), out.Bytes(), 0o644))
	t.Logf("%s.png: %d bytes", name, out.Len())
}

// paletteOf returns the colours that a picture has most of; of those, few are needed for the edges of letters.
func paletteOf(m image.Image) color.Palette {
	count := map[color.RGBA]int{}
	for y := m.Bounds().Min.Y; y < m.Bounds().Max.Y; y++ {
		for x := m.Bounds().Min.X; x < m.Bounds().Max.X; x++ {
			r, g, b, _ := m.At(x, y).RGBA()
			count[color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 255}]++
		}
	}
	most := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int { return cmp.Compare(count[b], count[a]) })
	var p color.Palette
	for _, c := range most[:min(len(most), 64)] {
		p = append(p, c)
	}
	return p
}

// contrast returns the worst contrast between a text that is seen and what is behind it, with the text.
const contrast = `(() => {
  const parse = (c) => c.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const f = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
  };
  const behind = (n) => {
    for (; n; n = n.parentElement) {
      const c = parse(getComputedStyle(n).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const ground = getComputedStyle(document.body).backgroundColor;
  let worst = { ratio: 99, text: "" };
  for (const n of document.querySelectorAll("body *")) {
    if (!n.checkVisibility() || ![...n.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim())) continue;
    const a = light(parse(getComputedStyle(n).color)), b = light(behind(n));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst.ratio) worst = { ratio, text: n.textContent.trim().slice(0, 40), ground };
  }
  return worst;
})()`

type legibility struct {
	Ratio        float64
	Text, Ground string
}

// LooksWell checks that everything can be read, and nothing has to be pushed aside for it.
func (b *Browser) LooksWell(how string) {
	t := b.t
	t.Helper()
	worst := Eval[legibility](b, contrast)
	assert.True(t, worst.Ratio >= 4.5 && worst.Ratio != 99,
		"%s: %q has a contrast of %.2f", how, worst.Text, worst.Ratio)
	assert.Equal(t, (worst.Ground == "rgb(20, 23, 28)"), strings.HasPrefix(how, "dark"),
		"%s: the ground is %s", how, worst.Ground)
	size := Eval[[]int](b, "[document.documentElement.scrollWidth, innerWidth]")
	assert.True(t, size[0] <= size[1] && (!strings.HasSuffix(how, "phone") || size[1] == 360),
		"%s: the page is %d wide and the window %d", how, size[0], size[1])
}
