"""The text of an error is part of the interface: the message, the line, the caret under the character."""

from __future__ import annotations

import pytest
from tests.strategies import for_each

from roofline.bounds.api import bound
from roofline.errors import NotationError, SizeError
from roofline.notation import program


def message(text):
    with pytest.raises(NotationError) as caught:
        program(text)
    return str(caught.value)


EXACT = [
    """
expected ',' or ']', found the end of the text
  bf16[B, D
           ^
""",
    """
unknown dtype 'bf61'; did you mean 'bf16'?
  bf61[B, D] * bf16[D, F]
  ^
""",
    """
unknown dtype 'bf61'; did you mean 'bf16'?
  x:bf61[B] * y[B]
    ^
""",
    """
unknown function 'gleu'; did you mean 'gelu'?
  gleu(bf16[B])
  ^
""",
    """
unknown function 'softmx_T'; did you mean 'softmax_T'?
  softmx_T(bf16[B, T])
  ^
""",
    """
'bf16' is a dtype, not a function; dimensions stand in square brackets, as in bf16[B, D]
  bf16(B, D)
  ^
""",
    """
a dimension is a name or a number, not an expression; name it and give its size beside the line: F=4*D
  bf16[B, 4*D] * bf16[D, F]
           ^
""",
    """
a dimension is a name or a number, not an expression; two are separated by a comma, [B, …]; of one, name it and \
give its size beside the line: F=B×D
  bf16[B×D] * bf16[D, N]
        ^
""",
    """
'64x128' is not a size; dimensions are separated by commas: [64, 128]
  bf16[64x128] * bf16[D, N]
       ^
""",
    """
expected a dimension: a name or a number, found ':'; an array has its sizes there, not slices: bf16[B, D]
  X[:, :D/2] @ Y[:D/2, :]
    ^
""",
    """
unknown dtype 'w4a16'; that is two formats, each said where it belongs: int4 or fp4 weights, bf16 or fp16 activations
  w4a16[B, D] * bf16[D, F]
  ^
""",
    """
a size is at least 1, not 0; a scalar is written bf16[]
  bf16[0, 4] + bf16[4]
       ^
""",
    """
the size is 9999999999999999999999999999999; sizes go up to 1e30
  bf16[9999999999999999999999999999999] * x
       ^
""",
    """
'4k' is not a size; write the number out, or give the dimension a name
  bf16[B, 4k]
          ^
""",
    """
expected ',' or ']' between dimensions, found 'D'
  bf16[B D]
         ^
""",
    """
expected a tensor such as bf16[B, D], a name or a function, found '*'; a power is power(a, b)
  bf16[B, D] ** bf16[D]
              ^
""",
    """
expected an operator, '->', ';' or the end, found 'bf16'; statements are separated by ; or a line break
  bf16[B, D] bf16[D, F]
             ^
""",
    """
expected an operator, '->', ';' or the end, found 'x'; a product is written with * or ×
  bf16[B, D] x W
             ^
""",
    """
expected an operator, '->', ';' or the end, found ')'; nothing is open that ')' could close
  gelu(bf16[B]))
               ^
""",
    """
expected the result after '->', such as bf16[B, F], found the end of the text
  bf16[B, D] * bf16[D, F] ->
                            ^
""",
    """
the number 3 is not an operand; a scalar is written bf16[]; a size stands inside brackets
  bf16[B, D] + 3
               ^
""",
    """
[B, D] * [E, F] share no dimension; rename the dimension to be contracted, or write the result: -> …
  bf16[B, D] * bf16[E, F]
             ^
""",
    """
F stands in one operand and nowhere else; add F to the result, or sum over it first: sum_F(…)
  bf16[B, D] * int8[D, F] -> bf16[B]
                       ^
""",
    """
[512, 8192] @ [4096, 8192]: 8192 and 4096 differ; numbers pair as in numpy.matmul: [M, K] * [K, N]; \
name the dimensions to contract others
  bf16[512, 8192] @ bf16[4096, 8192]
                         ^
""",
    """
bf16 and fp16 are equally wide, so the arithmetic dtype needs a choice; say compute='bf16' or compute='fp16'
  bf16[B, D] * fp16[D, F]
             ^
""",
    """
axis X stands twice in one tensor; a mesh axis can shard one dimension of a tensor
  A[B_XY, D_X] * B[D, F]
          ^
""",
    """
'B_X' is sharded already; several mesh axes are written together: B_XY
  A[B_X_Y, D] * B[D, F]
    ^
""",
    """
conv has no option 'strid'; did you mean 'stride'?
  conv(bf16[B, 8, 3], bf16[3, 3, O], strid=2)
                                     ^
""",
    """
stride is at least 1, not 0
  conv(bf16[B, 8, 3], bf16[3, 3, O], stride=0)
                                            ^
""",
    """
expected stride= a whole number, found '-'; as in stride=2
  conv(bf16[B, 8, 3], bf16[3, 3, O], stride=-1)
                                            ^
""",
    """
attention has no option 'casual'; did you mean 'causal'?
  attention(q[S, N, H], k[S, N, H], v[S, N, H], casual)
                                                ^
""",
    """
softmax has no option 'unfused'; attention has it; kernels of their own are operations of their own, as in \
m = max_T(x); e = exp(x - m)
  x = bf16[B, T]; softmax_T(x, unfused)
                               ^
""",
    """
relu has no option 'same'; conv and pool have it
  relu(bf16[8], same)
                ^
""",
    """
option window of attention needs a value; as in window=2
  attention(q[S, N, H], k[S, N, H], v[S, N, H], window)
                                                ^
""",
    """
conv has no option 'smae'; did you mean 'same'?
  conv(bf16[B, 8, 3], bf16[3, 3, O], smae)
                                     ^
""",
    """
'bias' is not defined; an input is written with its dims, as in bias[B, D]
  conv(bf16[B, 8, 3], bf16[3, 3, O], bias)
                                     ^
""",
    """
attention takes 2 to 3 operands, not 4; \
attention(q[B,S,N,H], k[B,T,K,H], v[B,T,K,H]; GQA where K < N; bottom-right causal)
  attention(q[S, N, H], k[S, N, H], v[S, N, H], mask)
  ^
""",
    """
3 output channels do not fall into 2 groups; \
the form is conv(x[B, spatial…, C], w[kernel…, C/groups, O]) with 1 to 3 spatial dimensions
  conv(bf16[1, 8, 8, 4], bf16[3, 3, 2, 3], groups=2)
                                           ^
""",
    """
3 channels do not fall into 2 groups; \
the form is conv(x[B, spatial…, C], w[kernel…, C/groups, O]) with 1 to 3 spatial dimensions
  conv(bf16[1, 8, 8, 3], bf16[3, 3, 2, 4], groups=2)
                                           ^
""",
    """
stride has 3 numbers for 2 spatial dimensions; stride=1 stands for all
  conv(bf16[1, 8, 8, 4], bf16[3, 3, 4, 3], stride=(1, 2, 3))
                                           ^
""",
    """
stride is a whole number of steps, not 2.5
  conv(bf16[1, 8, 8, 4], bf16[3, 3, 4, 3], stride=2.5)
                                                  ^
""",
    """
groups is a whole number, not 1.5
  group_norm(bf16[2, 3, 4], groups=1.5)
                                   ^
""",
    """
pad is a number of 35 digits; numbers go up to 1e30
  conv(bf16[1, 8, 8, 4], bf16[3, 3, 4, 3], pad=99999999999999999999999999999999999)
                                               ^
""",
    """
the padding is given twice; pad=1, same or valid
  conv(bf16[1, 8, 8, 4], bf16[3, 3, 4, 3], same, stride=2, pad=1)
                                                           ^
""",
    """
conv_transpose has no padding 'same'; give pad= as a number
  conv_transpose(bf16[1, 8, 8, 4], bf16[3, 3, 4, 3], stride=2, pad=same)
                                                               ^
""",
    """
attention takes 3 operands, not 2; attention(q, k, v), or attention(q, k, values=512) where the values are the first \
512 columns of k
  attention(q[S, N, H], k[S, N, H])
  ^
""",
    """
values=600 of keys with 576 columns; the values are the first of these columns
  attention(q[S, N, 576], c[S, 1, 576], values=600)
                                        ^
""",
    """
attention is causal or full, not both
  attention(q[S, N, H], k[S, N, H], v[S, N, H], causal, window=8, full)
                                                                  ^
""",
    """
depthwise has as many groups as channels; groups= says otherwise
  conv(bf16[1, 8, 8, 4], bf16[3, 3, 1, 4], depthwise, groups=2)
                                                      ^
""",
    """
a window of 9 does not fit a size of 8; pad more, or take a smaller window
  pool(bf16[1, 8, 8, 4], window=9)
                         ^
""",
    """
gelu takes nothing after '_'; write gelu(…)
  gelu_T(bf16[B])
  ^
""",
    """
'over' is given twice
  gelu(bf16[B]) over vmem over hbm
                          ^
""",
    """
expected nothing after 'over', which closes the text, found 'gelu'
  gelu(bf16[B]) over vmem; gelu(bf16[C])
                           ^
""",
    """
unexpected '>'; the result follows ->
  A[I] * B[I] => C[]
               ^
""",
    """
unknown LaTeX command \\alpha; \\cdot, \\times, \\rightarrow and \\text{…} are read
  A[I] \\alpha B[I]
       ^
""",
    """
expected {U_X}, partial sums over the mesh axis X
  A[I] {V_X} * B[I]
        ^
""",
    """
2 operands and 3 types; one type for each operand
  x • y: bf16[N], bf16[N], bf16[N]
                           ^
""",
    """
softmax gives [B, T]; write the result so, or leave it out
  softmax_T(bf16[B, T]) -> [T, B]
                           ^
""",
    """
the table of an embedding is [V, D], not [V]; embedding(table[V, D], int32[B, S])
  embedding(bf16[V], int32[B])
  ^
""",
    """
V stands in the table and in the indices; give one of them another name
  embedding(bf16[V, D], int32[V])
                              ^
""",
    """
group_norm works on [B, …, C]
  group_norm(bf16[C], groups=2)
  ^
""",
    """
the bias is [O], not [O, P]
  conv(bf16[N, H, W, C], bf16[3, 3, C, O], bf16[O, P])
  ^
""",
    """
the name of a dimension begins with a letter
  bf16[_a, B]
       ^
""",
    """
{U_X} stands after a tensor or a result, not after brackets
  (gelu(bf16[B])) {U_X}
                  ^
""",
    """
axis X has size 0; an axis has at least 1 chip
  mesh X=0; AllReduce_X(bf16[B])
         ^
""",
    """
a tensor alone gives no result; a copy or a change of dtype is written copy(x) -> … or cast(x) -> …
  bf16[B, D] -> [B, D]
                ^
""",
    """
a tensor alone is no operation; x comes from outside: only what an operation made can leave
  x = bf16[B, D]; h = gelu(x); x
                               ^
""",
    """
h is h[B, D]; a name is assigned once; give the other tensor another name
  h = gelu(bf16[B, D]); relu(h); h[D, B]
                                 ^
""",
    """
this tensor has two names, a and b
  a = b:bf16[B, D]
      ^
""",
    """
AllReduce has no operand and nothing before it; as in AllReduce_X(bf16[B, D])
  AllReduce_X
  ^
""",
    """
'%4' is not the number of this tensor, %1; a name begins with a letter
  gelu(%4:bf16[B])
  ^
""",
    """
x is x[B]; partial sums come from an operation
  x = gelu(bf16[B]); y = relu(x {U_X})
                              ^
""",
    """
window has a number of over 30 digits
  max_pool(bf16[N, H, W, C], window=3x1234567890123456789012345678901)
                                     ^
""",
    """
there is nothing to read; an example: bf16[B, D] * int8[D, F] -> bf16[B, F]
""",
]


@for_each("expected", EXACT, ids=[text.strip().split("\n")[0][:40] for text in EXACT])
def test_messages_are_exact(expected):
    expected = expected[1:-1]
    lines = expected.split("\n")
    assert message(lines[1][2:] if len(lines) > 1 else "") == expected


def test_only_the_line_at_fault_is_shown():
    assert message("gelu(bf16[B])\ngelu(bf16[B, )\ngelu(bf16[C])").split("\n")[1:] == [
        "  gelu(bf16[B, )",
        "               ^",
    ]


def test_the_caret_stands_under_wide_characters_too():
    line, caret = message("bf16[漢字, 0]").split("\n")[1:]
    assert line == "  bf16[漢字, 0]"
    assert len(caret) - 1 == 2 + len("bf16[") + 4 + len(", ")


def test_a_long_line_is_cut_around_the_caret():
    shown = message("bf16[B, D] * " * 20 + "bf16[B, ?]" + " * bf16[B, D]" * 20).split("\n")
    assert len(shown[1]) < 110
    assert shown[1][len(shown[2]) - 1] == "?"
    assert shown[1].strip()[0] == shown[1].strip()[-1] == "…"


def test_bounds_on_depth_and_length_are_said():
    assert message("(" * 40 + "x").startswith("brackets nested more than 32 deep; split it into statements")
    assert message("gelu(" * 4000).startswith("brackets nested more than 32 deep")
    assert message("*".join(["x[N]"] * 200)).startswith("more than 100 operators in one statement")
    assert message("[" + ",".join("ABCDEFGHIJ"[i % 10] + str(i) for i in range(40)) + "]").startswith(
        "more than 32 dim"
    )
    assert message("x" * 200).startswith("a name of 200 characters; 100 is the most")
    assert message("x" * 300_000).startswith("the text has 300000 characters, more than 200000 can be read")


def test_letters_of_another_alphabet_that_look_alike_are_named() -> None:
    cyrillic, greek = "\u0430", "\u039f"
    with pytest.raises(NotationError, match="share no dimension; 'a' has LATIN SMALL LETTER A, which looks like CYR"):
        bound(f"bf16[B, {cyrillic}] * bf16[a, F]", on="h100")
    with pytest.raises(SizeError, match=f"size O stands nowhere .*; '{greek}' has GREEK CAPITAL LETTER OMICRON, which"):
        bound(f"bf16[B, {greek}] * bf16[{greek}, F]", on="h100", O=8)
    # where both name the same dimension they are a name as any other
    assert bound(f"bf16[B, {cyrillic}] * bf16[{cyrillic}, F]", on="h100", B=8, F=8, **{cyrillic: 8}).lower > 0
