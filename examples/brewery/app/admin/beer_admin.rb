# What can be seen and changed of beers in /admin. The words are AdminSection's.
class BeerAdmin < AdminSection
  manages "Beer", label: :name
  columns :name, :style, :brewery, :abv, :price
  search :name, :style
  filters :style, :brewery
  fields :brewery, :name, :style, :abv, :ibu, :ebc, :price, :about
  relation :notes

  cell(:style) { |beer| tag.i("", class: "drop", style: "--beer: #{poured(beer)}") + " #{beer.style}" }
  cell(:price) { |beer| "€ #{number_with_precision(beer.price, precision: 2)}" }

  action("10 % cheaper") { |beer| beer.update(price: (beer.price * 0.9).round(2)) }
end
