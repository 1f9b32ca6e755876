// Asks Kubernetes' own CEL environment about rules of CustomResourceDefinitions: whether it accepts them, what it
// estimates that they cost, and what an evaluation costs.
//
//	cel record SEED COUNT   writes a generated corpus to standard output
//	cel rules FILE          answers the cases of a corpus file anew
//	cel definitions FILE…   judges definitions in YAML, one line of JSON for each version
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(words []string) error {
	switch {
	case len(words) == 3 && words[0] == "record":
		seed, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			return err
		}
		count, err := strconv.Atoi(words[2])
		if err != nil {
			return err
		}
		return record(seed, count)
	case len(words) == 2 && words[0] == "rules":
		return rules(words[1])
	case len(words) > 1 && words[0] == "definitions":
		return definitions(words[1:])
	}
	return fmt.Errorf("usage: cel record SEED COUNT | rules FILE | definitions FILE…")
}

func record(seed int64, count int) error {
	corpus, err := generate(seed, count)
	if err != nil {
		return err
	}
	return write(corpus)
}

func rules(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var corpus Corpus
	if err := json.Unmarshal(text, &corpus); err != nil {
		return err
	}
	judge, err := newJudge(corpus.Schemas)
	if err != nil {
		return err
	}
	for at := range corpus.Cases {
		asked := corpus.Cases[at]
		corpus.Cases[at] = judge.answer(asked.Schema, asked.Rule)
	}
	return write(&corpus)
}

// write prints a corpus with one case on a line, so that a difference of two recordings can be read.
func write(corpus *Corpus) error {
	schemas, err := json.MarshalIndent(corpus.Schemas, "", " ")
	if err != nil {
		return err
	}
	fmt.Printf("{\"schemas\": %s,\n\"cases\": [\n", schemas)
	for at, answer := range corpus.Cases {
		line, err := marshal(answer)
		if err != nil {
			return err
		}
		comma := ","
		if at == len(corpus.Cases)-1 {
			comma = ""
		}
		fmt.Printf("%s%s\n", line, comma)
	}
	fmt.Println("]}")
	return nil
}
