// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// secretValues is how many different values secrets have.
const secretValues = 64

// canaries are values that appear nowhere by chance.
func canaries(seed uint64) []string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // it must be repeatable
	all := make([]string, secretValues)
	for i := range all {
		value := make([]byte, 32)
		for j := range value {
			value[j] = letters[random.IntN(len(letters))]
		}
		all[i] = string(value)
	}
	return all
}

// Canaries returns every value that the driver gives to secrets; the seed decides on them.
func (d *Driver) Canaries() []string { return slices.Clone(d.secrets) }

// lastApplied is where kubectl apply puts a copy of what was applied, values of secrets included.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// ChangeAnnotation has the number of the change, which is in no other one. Bridges publish it of Secrets too.
const ChangeAnnotation = "faults.example.com/change"

// tokenAnnotation has a value of a Secret, as controllers write them.
const tokenAnnotation = "faults.example.com/token"

// content is what a change gives an object besides its metadata, and its annotations. Each differs from all others,
// so that no change is none.
func (w *writer) content(k Kind) (content, annotations map[string]any) {
	w.changes++
	mark := fmt.Sprintf("%d.%d", w.n, w.changes)
	annotations = map[string]any{ChangeAnnotation: mark}
	filling := strings.Repeat("x", w.rand.IntN(1500))
	switch k {
	case ConfigMaps:
		return map[string]any{"data": map[string]any{"change": mark, "filling": filling}}, annotations
	case Secrets:
		value := w.driver.secrets[w.rand.IntN(secretValues)]
		token := base64.StdEncoding.EncodeToString([]byte(value))
		annotations[tokenAnnotation] = value
		annotations[lastApplied] = fmt.Sprintf(`{"data":{"token":%q},"stringData":{"plain":%q}}`, token, value)
		return map[string]any{"data": map[string]any{
			"token":  token,
			"inside": base64.StdEncoding.EncodeToString([]byte("user:" + value + "\n")),
		}}, annotations
	case ClusterRoles:
		rule := map[string]any{
			"apiGroups": []any{"faults.example.com"}, "resources": []any{"widgets"},
			"resourceNames": []any{mark}, "verbs": []any{"get"},
		}
		return map[string]any{"rules": []any{rule}}, annotations
	default:
		return map[string]any{"spec": map[string]any{"change": mark, "filling": filling}}, annotations
	}
}
