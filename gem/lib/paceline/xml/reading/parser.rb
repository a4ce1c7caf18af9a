# frozen_string_literal: true

require "strscan"
require_relative "attributes"
require_relative "entities"
require_relative "doctype"

module Paceline
  module XML
    module Reading
      # Reads a document without the native part: what crates/xml/src/read does, with the same hashes, limits and mistakes, slower. The
      # hashes are those of ActiveSupport's REXML backend.
      class Parser
        include Names

        CONTENT = "__content__"
        FORBIDDEN = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/
        TAG = /<((?:[^>"']++|"[^"]*+"|'[^']*+')*+)>/
        NOT_BLANK = /[^[:space:]]/
        private_constant :CONTENT, :FORBIDDEN, :TAG, :NOT_BLANK

        # An element whose end has not come. `text` is nil as long as there is none; `blank` says that nothing but white space stands in
        # the document as its text.
        Open = Struct.new(:name, :at, :hash, :text, :blank, :children, :prefixes)
        private_constant :Open

        # `text` is in UTF-8. `depth` is how many elements may be within each other; negative means any number.
        def initialize(text, depth, limits)
          @text, @depth, @limits = text, depth, limits
          @entities = Entities.new(limits.expansion)
          @open, @elements = [], 0
          @prefixes = { "xml" => XML_NAMESPACE }
        end

        # The hash. Raises ParseError.
        def parse
          check_characters
          @scanner = StringScanner.new(@text)
          step until @scanner.eos?
          wrong(@open.last.at, "element #{Reading.quoted(@open.last.name)} is not closed") unless @open.empty?
          wrong(@text.bytesize, "the document has no root element") unless @root
          @root
        rescue Mistake => e
          place(e.at, e.message)
        end

        private

        def check_characters
          most = [@limits.bytes, 1 << 30].min
          raise ParseError, "the document is larger than #{most} bytes" if @text.bytesize > most

          unless @text.valid_encoding?
            valid = @text.each_char.take_while(&:valid_encoding?).sum(&:bytesize)
            place(valid, "the document is not valid UTF-8")
          end
          @text = @text.delete_prefix("\uFEFF")
          found = FORBIDDEN.match(@text) or return
          place(found.pre_match.bytesize, format("character U+%04X is not allowed", found[0].ord))
        end

        def step
          start = @scanner.pos
          if (text = @scanner.scan(/[^<&]++/)) then text(text, start)
          elsif @scanner.skip(/&/) then reference(start)
          elsif @scanner.match?(%r{</}) then end_tag(start)
          elsif @scanner.match?(/<\?/) then instruction(start)
          elsif @scanner.match?(/<!/) then special(start)
          else start_tag(start)
          end
        end

        def start_tag(start)
          inner = @scanner.skip(TAG) ? @scanner[1] : wrong(start, "there is no end to a tag")
          empty = inner.delete_suffix!("/")
          name = inner[/\A#{NAME_WITH_COLONS}/o] || wrong(start, "\"<\" that begins no tag")
          wrong(start, "a second root element") if @open.empty? && @root
          wrong(start, "The document is too deep") if @open.size == @depth
          wrong(start, "the document has more than #{@limits.elements} elements") if @elements >= @limits.elements
          @begun = true
          prefix, local = qualified(name, start + 1)
          before = []
          hash = attributes(inner, start + 1, name.bytesize, before)
          namespace_of(prefix, start + 1) if prefix
          @elements += 1

          if (parent = @open.last)
            parent.children = true
            merge(parent.hash, local, hash)
          else
            @root = { -local => hash }
          end
          empty ? restore(before) : @open << Open.new(name, start, hash, nil, true, false, before)
        end

        # The attributes in a tag, whose text within `<` and `>` is `inner` and stands at `start`. What prefixes meant goes to `before`.
        def attributes(inner, start, from, before)
          hash = {}
          prefixed = []
          attributes = Attributes.new(inner, from, start)
          while (name, value, at, value_at = attributes.next)
            wrong(at, "an element has more than #{@limits.attributes} attributes") if hash.size >= @limits.attributes
            prefix, local = qualified(name, at)
            wrong(at, "attribute #{Reading.quoted(name)} twice") if hash.key?(name)
            hash[-name] = value = @entities.unescape(value, value_at)
            if prefix == "xmlns" then declare(local, value, at, before)
            elsif prefix then prefixed << [prefix, local]
            end
          end
          twice(prefixed, start + from) unless prefixed.empty?
          hash
        end

        # Checks the prefixes of an element's attributes, and that no two of them mean the same name.
        def twice(prefixed, at)
          expanded = prefixed.map { |prefix, local| [namespace_of(prefix, at), local] }
          return if expanded.uniq.size == expanded.size

          _, local = expanded.tally.find { |_, count| count > 1 }.first
          wrong(at, "attribute #{Reading.quoted(local)} of one namespace twice")
        end

        def declare(prefix, namespace, at, before)
          wrong(at, "the prefix \"xmlns\" can't be declared") if prefix == "xmlns"
          if (prefix == "xml") != (namespace == XML_NAMESPACE)
            wrong(at, "the prefix \"xml\" and its namespace belong together")
          end
          before << [prefix, @prefixes[prefix]]
          @prefixes[prefix] = namespace
        end

        def restore(before)
          before.reverse_each { |prefix, namespace| @prefixes[prefix] = namespace }
        end

        def namespace_of(prefix, at)
          @prefixes[prefix] || wrong(at, "the prefix #{Reading.quoted(prefix)} is not declared")
        end

        def end_tag(start)
          name = @scanner.skip(TAG) ? @scanner[1][1..].sub(/[ \t\r\n]+\z/, "") : wrong(start, "there is no end to a tag")
          open = @open.pop || wrong(start, "end tag #{Reading.quoted("</#{name}>")} of no element")
          if name != open.name
            wrong(start, "end tag #{Reading.quoted("</#{name}>")} where element #{Reading.quoted(open.name)} is open")
          end
          # White space between elements is no text.
          merge(open.hash, CONTENT, open.text) if open.text && !(open.blank && open.children)
          restore(open.prefixes)
        end

        def text(raw, start)
          open = @open.last or return outside(raw, start)
          if (at = raw.index("]]>"))
            wrong(start + raw[0, at].bytesize, "\"]]>\" in text")
          end
          append(open, raw)
        end

        def append(open, raw)
          open.blank &&= !NOT_BLANK.match?(raw)
          raw = raw.gsub(/\r\n?/, "\n") if raw.include?("\r")
          open.text ? open.text << raw : open.text = +raw
        end

        # A space by reference is no white space between elements.
        def reference(start)
          inner = @scanner.skip(/([^;&<]*+);/) ? @scanner[1] : wrong(start, Entities::LONE)
          open = @open.last or wrong(start, "text outside of the root element")
          open.blank = false
          (open.text ||= +"") << @entities.resolve(inner, start)
        end

        def special(start)
          if @scanner.skip(/<!--/)
            @begun = true
            inner = @scanner.scan_until(/-->/) || wrong(start, "there is no end to a comment")
            at = inner.byteslice(0..-2).b.index("--")
            wrong(start + 4 + at, Doctype::DOUBLE_HYPHEN) if at < inner.bytesize - 3
          elsif @scanner.skip(/<!\[CDATA\[/)
            inner = @scanner.scan_until(/\]\]>/) || wrong(start, "there is no end to a CDATA section")
            append(@open.last || wrong(start, "a CDATA section outside of the root element"), inner.delete_suffix("]]>"))
          elsif @scanner.match?(/<!DOCTYPE/)
            wrong(start, "a document type declaration that is not before the root element, or the second") if @doctype || @root
            @doctype = @begun = true
            wrong(start, "the document type declaration has no name") if @scanner.match?(/<!DOCTYPE[ \t\r\n]*>/)
            Doctype.new(@scanner, @entities).read
          else
            wrong(start, unknown)
          end
        end

        def unknown
          case @scanner.rest.byteslice(2, 1)
          when "-" then "there is no end to a comment"
          when "[" then "there is no end to a CDATA section"
          when "D", "d" then "there is no end to the document type declaration"
          else "\"<!\" that begins nothing"
          end
        end

        def instruction(start)
          inner = !@scanner.match?(/<\?>/) && @scanner.skip(/<\?(.*?)\?>/m) ? @scanner[1] : wrong(start, "there is no end to a processing instruction")
          return declaration(inner, start) if inner.match?(/\Axml(?:[ \t\r\n]|\z)/)

          @begun = true
          wrong(start, "a processing instruction without a name") unless inner.match?(/\A#{NCNAME}(?:[ \t\r\n]|\z)/o)
        end

        # `<?xml ...?>`. White space may come before it, as with REXML.
        def declaration(inner, start)
          wrong(start, "the XML declaration is not at the beginning") if @begun
          @begun = true
          attributes = Attributes.new(inner, 3, start + 2)
          found = []
          while found.size < 4 && (name, value, = attributes.next)
            found << [name, value]
          end
          take = lambda do |wanted, good|
            next true unless found.first&.first == wanted

            good.match?(found.shift.last)
          end
          given = found.first&.first == "version"
          good = [take["version", /\A1\.[0-9]+\z/], take["encoding", /\A[A-Za-z][A-Za-z0-9._-]*\z/], take["standalone", /\A(?:yes|no)\z/]]
          wrong(start, "the XML declaration is not as it should be") unless given && good.all? && found.empty?
        end

        def outside(raw, start)
          at = raw.index(/[^ \t\r\n]/) or return
          wrong(start + raw[0, at].bytesize, "text outside of the root element")
        end

        # The second value of a key makes an Array of it.
        def merge(hash, key, value)
          if !hash.key?(key) then hash[-key] = value
          elsif hash[key].instance_of?(Array) then hash[key] << value
          else hash[key] = [hash[key], value]
          end
        end

        # Raises a ParseError for what stands `at` bytes into the document.
        def place(at, message)
          before = @text.byteslice(0, at).scrub("?")
          raise ParseError.new(message, 1 + before.count("\n"), before.size - (before.rindex("\n") || -1))
        end
      end
    end
  end
end
