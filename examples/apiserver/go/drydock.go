// Package drydock starts a Kubernetes API server for a test.
package drydock

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Start starts a server that ends with the test, and returns how to reach it. The arguments are those of `drydock apiserver`.
func Start(t *testing.T, arguments ...string) *rest.Config {
	t.Helper()
	server := exec.Command("drydock", append([]string{"apiserver", "--until-stdin-closes"}, arguments...)...)
	server.Stderr = os.Stderr
	stdin, _ := server.StdinPipe()
	stdout, _ := server.StdoutPipe()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); server.Wait() })
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	config, err := clientcmd.BuildConfigFromFlags("", strings.TrimPrefix(strings.TrimSpace(line), "export KUBECONFIG="))
	if err != nil {
		t.Fatal(err)
	}
	return config
}
