// Package top is what an operator sees of all locks in a terminal, and what keys do
// there.
//
// The idea: no terminal is needed to know it. A [View] is a value; what happens makes
// another one of it (See a snapshot, Press a key, Resize), and Draw turns it into
// lines that are no wider and no more than the terminal has room for. The program
// writes the lines to its terminal, and decodes what is typed with a [Keyboard].
//
//	view := top.View{}.Resize(80, 24).See(board.Now())
//	view = view.Press(top.Key{Is: top.Down})
//	for _, line := range view.Draw(top.Look{}) {
//		fmt.Println(line)
//	}
//
// Names that strangers have chosen do nothing to the terminal: see lettering.
package top
