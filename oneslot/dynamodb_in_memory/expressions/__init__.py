"""DynamoDB's expression language: conditions, filters, key conditions, projections and updates.

condition  := conjunction ("OR" conjunction)*         conjunction := negation ("AND" negation)*
negation   := "NOT" negation | "(" condition ")" | operand comparator operand | operand "BETWEEN" operand "AND" operand
              | operand "IN" "(" operand ("," operand)* ")" | function "(" operand ("," operand)* ")"
function   := "attribute_exists" | "attribute_not_exists" | "attribute_type" | "begins_with" | "contains"
operand    := path | ":value" | "size" "(" operand ")" | "(" operand ")"
path       := name ("." name | "[" digits "]")*       name := identifier | "#name"
projection := path ("," path)*
update     := ("SET" path "=" value ("," ...)* | "REMOVE" path ("," ...)*
              | ("ADD" | "DELETE") path ":value" ("," ...)*)+
value      := term (("+" | "-") term)?
term       := path | ":value" | "if_not_exists" "(" path "," term ")" | "list_append" "(" term "," term ")" | "(" value ")"
"""
