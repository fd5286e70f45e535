// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
)

// RestConfig finds the API server as kubectl does. The user agent is what its audit log has.
func RestConfig(k config.Kubernetes, userAgent string) (*rest.Config, error) {
	loaded, rules := loadedConfig(k)
	cfg, err := loaded.ClientConfig()
	if err != nil {
		return nil, exit.Usagef("find the API server: %w", explained(err, k, rules))
	}
	// A limit on requests would only slow down the start; watches are not limited, and lists are paged by the feed.
	cfg.QPS, cfg.Timeout = -1, 0
	cfg.UserAgent = userAgent
	return cfg, nil
}

func loadedConfig(k config.Kubernetes) (clientcmd.ClientConfig, *clientcmd.ClientConfigLoadingRules) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = k.Kubeconfig
	rules.WarnIfAllMissing = false // said elsewhere, and better
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: k.Context}), rules
}

// ownNamespace returns the namespace of the Pod, or of the kubeconfig's context.
func ownNamespace(k config.Kubernetes) (string, error) {
	loaded, _ := loadedConfig(k)
	namespace, _, err := loaded.Namespace()
	return namespace, err
}

// explained says which file and which context err is about, and what to set.
func explained(err error, k config.Kubernetes, rules *clientcmd.ClientConfigLoadingRules) error {
	const set = "set --kubeconfig, kubernetes.kubeconfig or $KUBECONFIG"
	if k.Kubeconfig != "" {
		if _, missing := os.Stat(k.Kubeconfig); missing != nil {
			return fmt.Errorf("%w, named by --kubeconfig or kubernetes.kubeconfig; %s to an existing file", missing, set)
		}
	} else if missing := allMissing(rules.Precedence); missing {
		return fmt.Errorf("this is no Pod, and %s; %s to a kubeconfig", named(rules.Precedence), set)
	}
	raw, unread := rules.Load()
	if unread != nil {
		return fmt.Errorf("%w; %s to a kubeconfig", unread, set)
	}
	chosen := cmp.Or(k.Context, raw.CurrentContext)
	switch {
	case raw.Contexts[chosen] != nil:
		return fmt.Errorf("context %q: %w; %s", chosen, err, set)
	case chosen == "":
		return fmt.Errorf("the kubeconfig has no current context; %s", contexts(raw))
	default:
		return fmt.Errorf("the kubeconfig has no context %q; %s", chosen, contexts(raw))
	}
}

func allMissing(files []string) bool {
	for _, file := range files {
		if _, err := os.Stat(file); file != "" && !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// named says where files that are not there were looked for, and why there.
func named(files []string) string {
	list := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	if list == "" {
		return strings.Join(files, " and ") + " does not exist"
	}
	return "$KUBECONFIG names " + strings.Join(filepath.SplitList(list), " and ") + ", which does not exist"
}

// contexts says which contexts there are.
func contexts(raw *clientcmdapi.Config) string {
	if len(raw.Contexts) == 0 {
		return "it has none, so it is no kubeconfig of a cluster"
	}
	return "it has: " + strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", ") +
		"; set --context or kubernetes.context"
}

// LeaseNamespace returns the namespace of the lease: the file's, or the process's own.
func LeaseNamespace(c *config.Config) (string, error) {
	if c.LeaderElection.ResourceNamespace != "" {
		return c.LeaderElection.ResourceNamespace, nil
	}
	namespace, err := ownNamespace(c.Kubernetes)
	if err != nil {
		return "", fmt.Errorf("find the namespace of the lease: %w; set leaderElection.resourceNamespace", err)
	}
	return namespace, nil
}

// AddressOf returns the URL of an API server, without who asks it.
func AddressOf(api *rest.Config) (*url.URL, error) {
	at, _, err := rest.DefaultServerUrlFor(api)
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	at.User = nil
	return at, nil
}
