# frozen_string_literal: true

# A template made by chance, the same for the same seed. What it calls is in template_stage.rb. It is valid Ruby that ends; it may fail.
class RandomTemplate
  NAMES = %w[a entry link title class p id send tag_name Upper été x].freeze
  KEYS = ["href:", "rel:", "class:", '"xml:lang":', ":id =>", '"data-x" =>', ':"a:b" =>', "été:"].freeze
  CONSTANTS = ['"text"', "'single'", '"a & <b>"', '"é☃"', '""', "5", "nil", "true", "false", ":sym", ':"q s"', '"#"', '"tab	"', "0x1f",
               '"line\n"', '"say \"x\""', "1.5", "-1", '"x" "y"', "%q(z)"].freeze
  VALUES = ["@title", "@url", "post.title", "@symbol", "@hash", "@list.size", "up(@title)", "up @title", '"#{@title}!"', "@posts.size + 1",
            "[1, 2].map { |n| n * 2 }.inspect", "@title ? @url : nil", "__LINE__", "xml.inner.size", "(boom rescue 'saved')", "n = 7", "@bad",
            "-> x, y { x }.call(1, 2)", "begin; 3; end", "begin; 4; 5; end", "boom", "xml.block { xml.leaf }.size"].freeze

  def initialize(seed)
    @random = Random.new(seed)
    @receivers = ["xml"]
  end

  def source
    @source ||= "post = @posts[0]\n#{statements(0)}"
  end

  private

  def pick(list)
    list[@random.rand(list.size)]
  end

  def chance(one_in)
    @random.rand(one_in).zero?
  end

  def statements(depth)
    Array.new(1 + @random.rand(depth.zero? ? 6 : 3)) { statement(depth) }.map { |text| "#{"  " * depth}#{text}#{pick(["\n", "\n", "\n", ";\n", " # note\n"])}" }.join
  end

  def statement(depth)
    return element(depth, block: false) if depth > 3

    case @random.rand(20)
    when 0..6 then element(depth, block: false)
    when 7..11 then element(depth, block: true)
    when 12 then "@posts.each do |#{pick(%w[post other])}|\n#{statements(depth + 1)}end"
    when 13 then "#{pick(%w[if unless])} #{pick(["@title", "@list.empty?", "xml.asked"])}\n#{statements(depth + 1)}else\n#{statements(depth + 1)}end"
    when 14 then "#{element(depth, block: chance(2))} #{pick(["if @title", "unless @title", "rescue log($!.class)", "and xml.also", "while false"])}"
    when 15 then "begin\n#{statements(depth + 1)}rescue RuntimeError, ArgumentError => e\n#{statements(depth + 1)}ensure\n#{statements(depth + 1)}end"
    when 16 then "log((#{element(depth, block: chance(2))}))"
    when 17 then pick(["xml.text! \"t & t\"", "xml << \"<raw/>\"", "xml.comment! \"c\"", "helper(xml)", "helper(xml) { xml.within }", "log __LINE__",
                       "xml.cdata! \"x\"", "n = (n || 0) + 1", "xml.text!(@title)", "log defined?(n)", "xml.instruct!"])
    when 18 then "log [1, 2].map { |number|\n#{statements(depth + 1)}}"
    else "case @posts.size when 2 then #{element(depth, block: chance(2))} else xml.never end"
    end
  end

  def element(depth, block:)
    name = name()
    name = name.sub(/\w+\z/, "tag!") if (@tag = chance(10))
    list = arguments(with_text: !block || chance(8))
    return "#{name}#{in_parentheses(list)}" unless block

    parameter, receivers = parameter()
    head = list.empty? || list[0].start_with?("{") || chance(2) ? in_parentheses(list, always: !list.empty?) : " #{list.join(", ")}"
    brace = head.start_with?("(") || head.empty? ? chance(2) : false
    before = @receivers
    @receivers += receivers
    body = statements(depth + 1)
    @receivers = before
    body = chance(4) && body.count("\n") == 1 ? " #{body.strip.sub(/ # note\z/, "")} " : "\n#{body}"
    "#{name}#{head} #{brace ? "{" : "do"}#{parameter}#{body}#{brace ? "}" : "end"}"
  end

  def name
    receiver = pick(@receivers)
    "#{receiver}.#{pick(NAMES)}"
  end

  def parameter
    case @random.rand(6)
    when 0 then [" |xml|", []]
    when 1, 2
      name = pick(%w[b inner node])
      [" |#{name}|", [name, name]]
    when 3 then [" |unused|", []]
    else ["", []]
    end
  end

  def arguments(with_text:)
    list = []
    list << pick(['"named"', ":named", '"n:s"', "'d-d'", '"x#{1}"']) if @tag
    list << pick([":ns", ":Envelope"]) if chance(10)
    list << value if with_text && !chance(3)
    list << value if with_text && chance(15)
    keys = KEYS.shuffle(random: @random).first(@random.rand(4))
    pairs = keys.map { |key| "#{key} #{value}" }
    return list + pairs unless pairs.any? && chance(6)

    list << "{ #{pairs.join(", ")} }"
  end

  def value
    text = chance(2) ? pick(CONSTANTS) : pick(VALUES)
    chance(12) || text.start_with?("up ", "n = ") ? "(#{text})" : text
  end

  def in_parentheses(list, always: false)
    return "" if list.empty? && !chance(4)
    return " #{list.join(", ")}" if !always && !list.empty? && chance(2) && !list[0].start_with?("{")

    separator = chance(5) ? ",\n    " : ", "
    "(#{"\n    " if chance(8)}#{list.join(separator)}#{"," if !list.empty? && chance(10)}#{"\n" if chance(8)})"
  end
end
