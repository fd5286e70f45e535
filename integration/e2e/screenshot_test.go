// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"cmp"
	"flag"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/stretchr/testify/require"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

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
