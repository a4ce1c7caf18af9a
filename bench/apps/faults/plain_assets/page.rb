PAGE = %(<!doctype html><link rel="stylesheet" href="/assets/shop-2f1cbd4d8aa01cf7.css"><script src="/assets/shop-7b09e1f2d3c4a5b6.js"></script><p>Books</p>).freeze
