# Forty breweries and two hundred beers that don't exist, the same ones every time.
return if Brewery.exists?

random = Random.new(1516)
now = Time.utc(2026, 1, 5, 9)

BREWERIES = <<~ROWS.lines.map { |row| row.strip.split(" | ") }
  Alderbach | Alderbach | Franconia | Germany
  Zum Weissen Raben | Ebelsheim | Franconia | Germany
  Kellermann & Töchter | Ottersgrund | Franconia | Germany
  Mönchsteich | Lindenroth | Bavaria | Germany
  Hopfenkind | Adlkirch | Bavaria | Germany
  Rheinkrug | Unterwald | Rhineland | Germany
  Zollhaus am Strom | Niederfurt | Rhineland | Germany
  Pivovar U Javora | Javorná Lhota | Bohemia | Czechia
  Pivovar Stará Pumpa | Horní Skala | Bohemia | Czechia
  Pivovar Tři Kosi | Kosov | Bohemia | Czechia
  Moravské Sklepy | Dolní Brod | Moravia | Czechia
  Brouwerij De Reiger | Sint-Alda | Flanders | Belgium
  Brouwerij Windas | Oosterzele-aan-Zee | Flanders | Belgium
  De Koperen Ketel | Landergem | Flanders | Belgium
  Abbaye du Val-Clair | Val-Clair | Wallonia | Belgium
  Ferme des Trois Saules | Herbeumont-le-Petit | Wallonia | Belgium
  Brasserie du Terril | Marchelle | Wallonia | Belgium
  Brouwerij Het Anker Los | Westerdijk | Zeeland | Netherlands
  Stadsbrouwerij Ooievaar | Kleverdam | Holland | Netherlands
  Oast & Anchor | Appleden | Kent | England
  Hobnail Ales | Cragthwaite | Yorkshire | England
  Three Furlongs | Melbury Cross | Somerset | England
  The Lamplighters | Southmarket | London | England
  Black Tarn | Ennerthwaite | Cumbria | England
  Gillie & Sons | Strathcairn | Highlands | Scotland
  Saltmarket Brewery | Portgarrow | Lothian | Scotland
  Cnoc Rua | Ballyfoyle | Munster | Ireland
  Quayside Porter Works | Rathmullen | Leinster | Ireland
  Fjellbekk Bryggeri | Storvik | Vestland | Norway
  Nordlys Håndbryggeri | Tranes | Troms | Norway
  Svanebryggeriet | Højlund | Jutland | Denmark
  Kvarnhjulet | Åmåla | Västergötland | Sweden
  Panimo Kettu | Karhula-Järvi | Tavastia | Finland
  Brasserie Haute-Pierre | Roquebelle | Ardèche | France
  Birrificio Due Torri | Montalbo | Piedmont | Italy
  Cervecería La Garza | Valdeflores | Galicia | Spain
  Fern & Hollow | Cedar Landing | Oregon | United States
  Second Bell Brewing | Millrace | Vermont | United States
  Dry Gulch Beer Co. | Ocotillo Wells | Arizona | United States
  Kōji & Kin | Minamiyama | Nagano | Japan
ROWS

#         style                      abv        ibu      ebc
STYLES = {
  "Pilsner"             => [4.4..5.2, 28..42, 5..9],
  "Helles"              => [4.7..5.3, 16..22, 6..10],
  "Kellerbier"          => [4.7..5.4, 20..32, 8..16],
  "Weissbier"           => [4.9..5.6, 10..15, 8..14],
  "Rauchbier"           => [4.8..6.0, 20..30, 24..44],
  "Märzen"              => [5.4..6.2, 18..25, 16..30],
  "Doppelbock"          => [7.0..8.4, 16..26, 28..48],
  "Kölsch"              => [4.4..5.2, 18..28, 7..10],
  "Dark Lager"          => [4.2..5.2, 18..28, 36..60],
  "Saison"              => [5.0..7.0, 20..35, 9..20],
  "Tripel"              => [7.5..9.5, 20..40, 9..14],
  "Dubbel"              => [6.0..7.6, 15..25, 26..44],
  "Gueuze"              => [5.5..7.5, 4..10, 8..14],
  "Flanders Red"        => [4.8..6.5, 10..22, 26..40],
  "Witbier"             => [4.6..5.4, 10..18, 4..8],
  "Best Bitter"         => [3.9..4.6, 25..38, 16..30],
  "Mild"                => [3.0..3.8, 10..22, 36..60],
  "Porter"              => [4.6..6.2, 22..38, 44..70],
  "Stout"               => [4.2..5.6, 28..44, 60..90],
  "Imperial Stout"      => [8.5..11.5, 45..75, 80..110],
  "Pale Ale"            => [4.6..5.8, 28..45, 12..22],
  "IPA"                 => [5.8..7.2, 45..68, 12..24],
  "Session IPA"         => [3.6..4.6, 32..50, 8..16],
  "Barley Wine"         => [8.5..11.0, 40..60, 28..50],
  "Kveik Ale"           => [5.0..7.2, 15..35, 14..32]
}.freeze

FIRST = %w[Amber Barn Bell Black Bright Broken Copper Crooked Dawn Double Drowsy Early Easy Ember First Foggy Gentle Golden Green
           Harvest Hidden High Honest Iron Last Late Lazy Little Lost Low Lucky Midnight Misty Moon Morning Night North Oak
           Old Open Owl Patient Quiet River Rusty Salt Second Silent Silver Slow Stone Stray Summer Sunday Tall Third Thirsty
           Twin Velvet Wandering Warm Wild Winter].freeze
LAST = %w[Anchor Anvil Badger Barrel Bridge Candle Chapel Cooper Crane Creek Crow Ferry Field Fiddle Fox Garden Gate Goose
          Grove Hare Harbour Heron Hill Horse Hymn Kettle Lantern Ledger Letter Meadow Mill Miller Orchard Otter Path Pilgrim
          Pony Post Raven Road Rook Sail Shepherd Sparrow Station Stile Swan Tide Tower Valley Waltz Wagon Well Wheel Willow].freeze

NOSE = ["fresh bread", "honey", "wet stone", "orange peel", "clove and banana", "cocoa", "dark cherries", "pine", "a struck match",
        "hay", "grapefruit", "toffee", "smoked ham", "elderflower", "green apple", "espresso", "black pepper", "lemon leaf",
        "walnut", "old leather"].freeze
MOUTH = ["lean and quick", "round and soft", "dry as chalk", "full, with a low carbonation", "crisp, with a firm bite",
         "silky", "tart and bright", "warming", "light on its feet", "chewy"].freeze
FINISH = ["long and bitter", "short and clean", "a little salty", "gently sweet", "dry, asking for the next sip",
          "smoky to the end", "peppery", "like the crust of a loaf", "all herbs", "sour first, then soft"].freeze
WITH = ["a plate of pretzels", "washed-rind cheese", "roast pork", "oysters", "a mild curry", "apple tart", "smoked trout",
        "nothing but an evening", "fried potatoes", "dark chocolate", "a ploughman's lunch", "grilled mackerel"].freeze
PLACE = ["in a former fire station", "behind the mill", "on the market square", "in three vaulted cellars under the church hill",
         "in a barn with a view of the hop garden", "beside the lock", "in an old tram depot", "where the two rivers meet",
         "in the yard of a farm that still keeps its own barley", "next to the railway bridge"].freeze
HABIT = ["The copper is still fired with wood twice a week.", "Open fermenters, no filter, no hurry.",
         "The tap room opens when the flag is out.", "Everything is sold within the sound of the church bell.",
         "The yeast has not left the building since the flood.", "Four people work here, and a very large cat.",
         "The water comes from its own well, and tastes of iron.", "They malt their own barley on the upper floor.",
         "Casks go out on the early train, as they always did.", "The head brewer was a clockmaker before."].freeze
AUTHORS = ["Ines", "Tomáš", "Greta", "Oluf", "Marguerite", "Desmond", "Yuki", "Brigid", "Pieter", "Sofía"].freeze

pick = ->(list) { list[random.rand(list.size)] }
between = ->(range) { random.rand(range) }
names = FIRST.product(LAST).shuffle(random: random)

Brewery.transaction do
  breweries = BREWERIES.map do |name, town, region, country|
    founded = between.(0..3).zero? ? between.(1480..1820) : between.(1835..2021)
    { name: name, town: town, region: region, country: country, founded: founded,
      about: "Brewing #{pick.(PLACE)} in #{town} since #{founded}. #{pick.(HABIT)}", created_at: now, updated_at: now }
  end
  Brewery.insert_all!(breweries)

  beers = Brewery.order(:id).flat_map do |brewery|
    STYLES.to_a.sample(5, random: random).map do |style, (abv, ibu, ebc)|
      { brewery_id: brewery.id, name: names.pop.join(" "), style: style, abv: between.(abv).round(1), ibu: between.(ibu), ebc: between.(ebc),
        about: "Smells of #{pick.(NOSE)} and #{pick.(NOSE)}; #{pick.(MOUTH)}. The finish is #{pick.(FINISH)}. Good with #{pick.(WITH)}.",
        created_at: now, updated_at: now }
    end
  end
  Beer.insert_all!(beers)

  notes = Beer.order(:id).pluck(:id).flat_map do |id|
    Array.new(between.(0..3)) do |i|
      at = now + id * 3600 + i * 60
      { beer_id: id, author: pick.(AUTHORS), score: between.(2..5), body: "#{pick.(NOSE).capitalize}, then #{pick.(NOSE)}. #{pick.(MOUTH).capitalize}.",
        created_at: at, updated_at: at }
    end
  end
  Note.insert_all!(notes)
end

puts "#{Brewery.count} breweries, #{Beer.count} beers, #{Note.count} tasting notes"
