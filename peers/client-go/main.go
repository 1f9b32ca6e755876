// client-go's side of `cargo xtask bench runtime`: the same work, the same lines, the same steps as
// tools/bench-client.
package main

import (
	"flag"
	"log"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: client-go informer|queue ...")
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	server := flags.String("server", "", "the replay server")
	pods := flags.Int64("pods", 0, "how many pods there are")
	form := flags.String("form", "application/json", "content type of objects")
	strip := flags.Bool("strip", false, "drop managedFields before objects are stored")
	keys := flags.Int("keys", 0, "how many keys there are")
	items := flags.Int("items", 0, "how many items are worked on")
	if err := flags.Parse(os.Args[2:]); err != nil {
		log.Fatal(err)
	}
	switch os.Args[1] {
	case "informer":
		informer(*server, *form, *pods, *strip)
	case "queue":
		queue(*keys, *items)
	default:
		log.Fatalf("unknown case %q", os.Args[1])
	}
}
