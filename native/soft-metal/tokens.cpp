// The lexer of tokens.h. Directives are single tokens, `[[` and `]]` are marks of their own.
#include "tokens.h"

#include <cctype>
#include <cstring>

namespace soft {

namespace {

bool wordStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool wordPart(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

size_t skipBlank(const std::string& s, size_t i) {
  for (;;) {
    if (i < s.size() && std::isspace(static_cast<unsigned char>(s[i]))) i++;
    else if (s.compare(i, 2, "//") == 0) while (i < s.size() && s[i] != '\n') i++;
    else if (s.compare(i, 2, "/*") == 0) {
      size_t end = s.find("*/", i + 2);
      i = end == std::string::npos ? s.size() : end + 2;
    } else return i;
  }
}

size_t numberEnd(const std::string& s, size_t i) {
  bool hex = s.compare(i, 2, "0x") == 0 || s.compare(i, 2, "0X") == 0;
  for (; i < s.size(); i++) {
    char c = s[i];
    if (wordPart(c) || c == '.') continue;
    char before = s[i - 1];
    bool sign = (c == '+' || c == '-') && (hex ? before == 'p' || before == 'P' : before == 'e' || before == 'E');
    if (!sign) break;
  }
  return i;
}

size_t directiveEnd(const std::string& s, size_t i) {
  while (i < s.size() && s[i] != '\n') {
    if (s[i] == '\\' && i + 1 < s.size()) i++;
    i++;
  }
  return i;
}

const char* const kLong[] = {"<<=", ">>=", "...", "[[", "]]", "::", "->", "++", "--", "<<", "<=", ">=", "==", "!=", "&&",
  "||", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="};

}  // namespace

std::vector<Token> tokenize(const std::string& s) {
  std::vector<Token> out;
  size_t i = 0, counted = 0, lineStart = 0;
  int line = 1, squares = 0;
  bool fresh = true;
  for (;;) {
    Token t;
    size_t start = skipBlank(s, i);
    t.lead = s.substr(i, start - i);
    if (t.lead.find('\n') != std::string::npos) fresh = true;
    for (; counted < start; counted++)
      if (s[counted] == '\n') line++, lineStart = counted + 1;
    t.line = line;
    t.column = static_cast<int>(start - lineStart) + 1;
    if (start >= s.size()) {
      out.push_back(t);
      return out;
    }
    size_t end = start + 1;
    char c = s[start];
    if (c == '#' && fresh) t.kind = Token::Directive, end = directiveEnd(s, start);
    else if (wordStart(c)) {
      t.kind = Token::Word;
      while (end < s.size() && wordPart(s[end])) end++;
    } else if (std::isdigit(static_cast<unsigned char>(c)) || (c == '.' && start + 1 < s.size() && std::isdigit(static_cast<unsigned char>(s[start + 1])))) {
      t.kind = Token::Number, end = numberEnd(s, start + 1);
    } else if (c == '"' || c == '\'') {
      t.kind = Token::Text;
      while (end < s.size() && s[end] != c) end += s[end] == '\\' ? 2 : 1;
      end++;
    } else {
      t.kind = Token::Mark;
      for (const char* m : kLong) {
        size_t n = std::strlen(m);
        if (s.compare(start, n, m) != 0) continue;
        // `a[b[i]]` is two closing brackets; `]]` is one mark only after `[[`.
        if (m[0] == ']' && squares == 0) continue;
        end = start + n;
        if (m[0] == '[') squares++;
        if (m[0] == ']') squares--;
        break;
      }
    }
    t.text = s.substr(start, end - start);
    out.push_back(t);
    fresh = false;
    i = end;
  }
}

std::string print(const std::vector<Token>& tokens) {
  std::string out;
  for (auto& t : tokens) out += t.lead + t.text;
  return out;
}

}  // namespace soft
