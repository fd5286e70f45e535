module github.com/kube-eventbridge/kube-eventbridge

go 1.26
