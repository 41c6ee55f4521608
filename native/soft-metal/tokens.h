// A lexer for MSL that loses nothing: printing the tokens gives the source back. Private to the rewriter.
#pragma once
#include <string>
#include <vector>

namespace soft {

struct Token {
  enum Kind { Word, Number, Text, Mark, Directive, End } kind = End;
  std::string lead, text;  // lead: blanks and comments before the token
  int line = 0, column = 0;
};

std::vector<Token> tokenize(const std::string& source);
std::string print(const std::vector<Token>& tokens);

}  // namespace soft
